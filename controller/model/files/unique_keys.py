"""Duplicate keys in JSON and YAML mappings: rejected, because parsers silently keep only the last one.

RFC 8259, section 4, leaves the handling of such a document open; YAML 1.2.2, section 3.2.1.1, forbids it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
import yaml

from controller.model.errors import InputError

_MERGE = "tag:yaml.org,2002:merge"


class _Doubled(dict[str, Any]):
    """An object of a document in which ``key`` occurs more than once."""

    key = ""


def json_document(text: str | bytes) -> Any:
    """Parse JSON to plain data.

    Raises:
        ValueError, RecursionError: as ``json.loads`` does.
        InputError: a key occurs twice in one object (an InputError is a ValueError, too); ``field`` is the key's path.
    """
    doubled: list[_Doubled] = []

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) == len(pairs):
            return members
        marked = _Doubled(members)
        marked.key = _first_twice([key for key, _ in pairs])
        doubled.append(marked)
        return marked

    document = json.loads(text, object_pairs_hook=made)
    if doubled:
        for path, value in _walk(document):
            if isinstance(value, _Doubled):
                raise _twice(f"{path}.{value.key}" if path else value.key)
        # The object was inside a value that a later one has replaced.
        raise _twice(doubled[0].key)
    return document


def check_unique(text: bytes, document: Any) -> None:
    """Check JSON that was parsed already.

    Colons follow keys, or are inside of strings. A key that is given again takes its colon, and those of the value that
    it replaces, out of the document. So there are as many colons in the text as in the document unless a key occurs
    twice. Counting them takes a third of the parser's time (0.1 s of 44 MB); only where the numbers differ the text is
    parsed again, to name the key.

    Args:
        text: valid JSON.
        document: the result of ``orjson.loads``.

    Raises:
        InputError: a key occurs twice in one object; ``field`` is the key's path.
    """
    plain = text
    if b"\\u003" in text:
        # An escaped colon, unless its backslash is escaped itself.
        plain = text.replace(rb"\\", b"").replace(rb"\u003a", b":").replace(rb"\u003A", b":")
    if plain.count(b":") == _colons(document):
        return
    try:
        json_document(text)
    except RecursionError:
        raise InputError("is nested too deep, and a key occurs twice in one object") from None


def check_yaml(root: yaml.Node | None) -> None:
    """Check a YAML document before its nodes become data. Keys that ``<<`` merges may be given again.

    Raises:
        InputError: a key occurs twice in one mapping; ``field`` is the key's path.
    """
    seen: set[int] = set()
    waiting = [] if root is None else [("", root)]
    while waiting:
        path, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += [(f"{path}[{i}]", value) for i, value in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            keys: set[tuple[str, str]] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                below = f"{path}.{key.value}" if path else key.value
                if key.tag != _MERGE and (key.tag, key.value) in keys:
                    raise _twice(below, f"this key occurs twice (line {key.start_mark.line + 1})")
                keys.add((key.tag, key.value))
                waiting.append((below, value))


def _colons(document: Any) -> int:
    """Return the number of colons in the JSON text of a document without escaped ones."""
    try:
        return orjson.dumps(document).count(b":")
    except TypeError:
        # Nested deeper than orjson can write.
        pass
    colons = 0
    for _, value in _walk(document):
        if isinstance(value, dict):
            colons += len(value) + sum(key.count(":") for key in value)
        within = value.values() if isinstance(value, dict) else value
        colons += sum(each.count(":") for each in within if isinstance(each, str))
    return colons


def _walk(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield all objects and arrays of a document with their paths, the outer ones first."""
    waiting = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            yield path, value
            waiting += [(f"{path}.{key}" if path else key, below) for key, below in reversed(value.items())]
        elif isinstance(value, list):
            yield path, value
            waiting += [(f"{path}[{i}]", below) for i, below in reversed(list(enumerate(value)))]


def _first_twice(keys: list[str]) -> str:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    raise AssertionError("no key is there twice")


def _twice(path: str, reason: str = "this key occurs twice") -> InputError:
    return InputError(reason, field=path)
