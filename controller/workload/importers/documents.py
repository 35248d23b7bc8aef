"""Safe reading of other tools' YAML and JSON; errors are one line."""

from __future__ import annotations

from typing import Any, BinaryIO
from xml.etree import ElementTree

import orjson
import yaml

from controller.model.errors import InputError
from controller.model.files.yaml_aliases import check_aliases
from controller.workload.importers.base import Source

MAX_SIZE = 64 << 20
"""Bytes of one document."""

MAX_DEPTH = 100
"""Levels of one YAML document."""

MAX_OPEN = 5000
"""Most open brackets in JSON that is read as a stream, including those in strings."""

_PIECE = 4096


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    def get_single_node(self) -> Any:
        """Return the root node; aliases that stand for too many values are an error."""
        node = super().get_single_node()
        check_aliases(node)
        return node


def yaml_document(source: Source) -> Any:
    """Read the document of a YAML file (JSON is YAML, too).

    Raises:
        InputError: the file is not valid YAML, too large or too deep, or its aliases stand for too many values.
    """
    try:
        text, depth = content(source), 0
        # The loader calls itself for each level, and would overflow the stack.
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise InputError(f"is nested more than {MAX_DEPTH} deep", source=source.name)
        return yaml.load(text, Loader=_Loader)
    except InputError as error:
        raise error.with_source(source.name) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"is not YAML: {reason}", source=source.name) from None


def json_document(source: Source) -> Any:
    """Read the document of a JSON file.

    Raises:
        InputError: the file is not valid JSON, or too large.
    """
    try:
        return orjson.loads(content(source))
    except InputError:
        raise
    except ValueError as error:
        raise no_json(source, error) from None


def no_json(source: Source, error: ValueError) -> InputError:
    """Return an error with the reason in one line of plain text why a file is not JSON."""
    said = error.args[0] if error.args else ""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if isinstance(error, UnicodeDecodeError) or "UTF8" in text or "UTF-8" in text:
        return InputError("is not JSON: it is not UTF-8 text", source=source.name)
    # The parser's reason is followed by an excerpt of the file.
    reason = text.partition("\n")[0].strip()
    return InputError(f"is not JSON: {reason}"[:200], source=source.name)


class Shallow:
    """A stream of JSON that raises an error where too many brackets are open.

    ``ijson`` keeps the path of each level, so memory grows with the square of the depth.

    Raises:
        InputError: too many brackets are open at the end of a read.
    """

    def __init__(self, stream: BinaryIO, source: Source) -> None:
        """Wrap a stream of the given source."""
        self._stream, self._source, self._open = stream, source, 0

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes and count the brackets in them."""
        data = self._stream.read(size)
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            self._open += piece.count(b"[") + piece.count(b"{") - piece.count(b"]") - piece.count(b"}")
            if self._open > MAX_OPEN:
                raise InputError(
                    f"is not JSON written by a tool: {self._open} levels are open", source=self._source.name
                )
        return data


def content(source: Source, limit: int = MAX_SIZE) -> bytes:
    """Return all of a file, without a byte order mark.

    Raises:
        InputError: it is larger than ``limit``.
    """
    with source.open() as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"is larger than {limit} bytes", source=source.name)
    return data.removeprefix(b"\xef\xbb\xbf")


def xml_document(source: Source, limit: int = MAX_SIZE) -> ElementTree.Element:
    """Read the root of an XML file without entities of its own.

    Raises:
        InputError: the file is not valid XML, larger than ``limit`` bytes, or declares a document type.
    """
    text = content(source, limit)
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise InputError("has a document type declaration, which is not read", source=source.name)
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"is not XML: {error}", source=source.name) from None


def items(value: Any, source: Source, field: str) -> list[Any]:
    """Return the value if it is a list.

    Raises:
        InputError: it is not a list.
    """
    if not isinstance(value, list):
        raise InputError("is not a list", source=source.name, field=field, value=value)
    return value


def mapping(value: Any, source: Source, field: str) -> dict[str, Any]:
    """Return the value if it is a mapping.

    Raises:
        InputError: it is not a mapping.
    """
    if not isinstance(value, dict):
        raise InputError("is not a mapping", source=source.name, field=field, value=value)
    return value
