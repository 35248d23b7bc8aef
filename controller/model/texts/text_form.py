"""Forms of texts in documents and requests: a regular expression for programs, and words for people."""

from __future__ import annotations

from pydantic import StringConstraints

_WORDS: dict[str, str] = {}


def text_form(pattern: str, words: str, *, to_lower: bool | None = None) -> StringConstraints:
    """Return the constraint of a text that matches a pattern; ``words`` complete "must be" in the error of another."""
    _WORDS[pattern] = words
    return StringConstraints(pattern=pattern, to_lower=to_lower)


def in_words(pattern: str) -> str:
    """Return what a text must be that does not match the pattern of a ``text_form``."""
    return f"must be {_WORDS[pattern]}"
