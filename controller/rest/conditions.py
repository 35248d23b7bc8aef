"""``If-Match`` and ``If-None-Match`` (RFC 9110, section 13.1) to conditions on a job's revision."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controller.rest.backend import UNCONDITIONAL, Condition
from controller.rest.operation import Parameter, Text

_TAG = r'(?:W/)?"[!#-~]*"'
_BARE = r"[A-Za-z0-9._-]{1,64}"
ENTITY_TAGS = rf"(?:\*|{_BARE}|{_TAG}(?:[ \t]*,[ \t]*{_TAG})*)"
"""Besides what the RFC has, a revision without quotes: it can only mean one thing, and shells eat quotes."""

IF_MATCH = Parameter(
    "If-Match",
    "Only if the job has one of these ETags (of any, for *); otherwise 412.",
    Text(ENTITY_TAGS),
    '"5d41402abc4b2a76"',
    place="header",
)
IF_NONE_MATCH = Parameter(
    "If-None-Match",
    "Only if the job has none of these ETags (for *: if there is no such job); otherwise 412.",
    Text(ENTITY_TAGS),
    "*",
    place="header",
)


def condition(headers: Mapping[str, str]) -> Condition:
    """What the request is conditional on. Headers by lower-case name.

    Raises:
        ProblemError: a header is malformed.
    """
    match, none_match = _tags(IF_MATCH, headers), _tags(IF_NONE_MATCH, headers)
    if match is None and none_match is None:
        return UNCONDITIONAL
    return Condition(
        # If-Match compares strongly (RFC 9110, section 8.8.3.2): a weak tag stays as it is, and equals no revision.
        None if match is None else frozenset(tag.strip('"') for tag in match),
        None if none_match is None else frozenset(tag.removeprefix("W/").strip('"') for tag in none_match),
    )


def _tags(header: Parameter, headers: Mapping[str, str]) -> list[str] | None:
    """The header's entity tags; none in the list for ``*``, ``None`` where there is no such header."""
    text = headers.get(header.name.lower())
    if text is None:
        return None
    text = str(header.kind.read(header.name, text.strip(" \t")))
    if text == "*":
        return []
    return [text] if re.fullmatch(_BARE, text) else re.findall(_TAG, text)
