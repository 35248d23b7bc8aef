"""Fields of documents, with errors that name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from controller.model.errors import InputError

T = TypeVar("T")


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
