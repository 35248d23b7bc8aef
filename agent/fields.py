"""Fields of documents, with errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from controller.model.errors import InputError

T = TypeVar("T")

BITS_PER_GBIT, MOST_GBPS = 10**9, 10**6


def member(row: Any, where: str, name: str, kind: type[T]) -> T:
    """Return a member of an object.

    Args:
        row: the object.
        where: its place in the document, as the begin of the names of its fields.
        name: of the member.
        kind: its type.

    Raises:
        InputError: it is no object, the member is missing, or of another type.
    """
    if not isinstance(row, dict):
        raise InputError("is not an object", field=where.rstrip("."), value=row)
    if name not in row:
        raise InputError("is missing", field=where + name)
    value = row[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError("has the wrong type", field=where + name, value=value)
    return value


def converted(convert: Callable[[str], T], text: str, field: str, what: str) -> T:
    """Return what a text stands for.

    Raises:
        InputError: ``convert`` has raised ``ValueError``: the text is not ``what``.
    """
    try:
        return convert(text)
    except ValueError:
        raise InputError(f"is not {what}", field=field, value=text) from None


def pace(row: Any, where: str) -> int | None:
    """Return the pace of a flow, ``wire_gbps``, in bit/s; ``None``: it has none.

    Raises:
        InputError: it is no rate.
    """
    gbps = row.get("wire_gbps")
    if gbps is None:
        return None
    if isinstance(gbps, bool) or not isinstance(gbps, int | float) or not 0 < gbps < MOST_GBPS:
        raise InputError("is not a rate", field=f"{where}wire_gbps", value=gbps)
    return max(1, round(gbps * BITS_PER_GBIT))
