"""Functions with which commands write documents and text, to a file or to standard output, and name files in errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.cli.shared.output import OutputFormat, print_document
from controller.model.errors import InputError
from controller.whole_file import write_bytes


def write_document(path: Path | None, document: dict[str, Any]) -> None:
    """Write a document to a file as YAML or JSON, by its suffix, or to standard output for ``None`` or ``-``.

    Raises:
        InputError: the file cannot be written.
    """
    import orjson

    from controller.model.files.fabric_file import yaml_of

    if path is None or str(path) == "-":
        print_document(document, OutputFormat.JSON)
    elif path.suffix.lower() in (".yaml", ".yml"):
        write_text(path, [yaml_of(document)])
    else:
        write_text(path, [orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()])


def write_text(path: Path | None, parts: Iterable[str]) -> None:
    """Write text to a file, whole or not at all, or to standard output for ``None`` or ``-``.

    Raises:
        InputError: the file cannot be written; one of this name is as it was.
    """
    if path is None or str(path) == "-":
        sys.stdout.writelines(parts)
        return
    write_bytes(path, (part.encode() for part in parts))


def write_files(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files into a folder, which is made if it is not there.

    Raises:
        InputError: the folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", source=str(folder)) from None
    for name, content in files:
        write_bytes(folder / name, [content])


@contextmanager
def naming_the_fabric(file: Path) -> Iterator[None]:
    """Name the file of an optical fabric in errors about what it has.

    Raises:
        InputError: that of the body, with the file.
    """
    try:
        yield
    except InputError as error:
        raise (
            error if error.source or not error.field.startswith("optical") else error.with_source(str(file))
        ) from None
