"""Functions with which commands write documents and text, to a file or to standard output, and name files in errors."""

from __future__ import annotations

import functools
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

from controller.cli.shared.output import OutputFormat, print_document
from controller.model.errors import InputError
from controller.whole_file import write_bytes

OPTICAL_PARTS = re.compile("optical")
"""The fields of an optical fabric."""

FABRIC_PARTS = re.compile(r"(fabric|switches|hosts?|links|failed|cable|gbps)(?![^ .[])")
"""The fields of a fabric, also as parts that it has, such as ``host h1``; flows of jobs are ``JOB/..``."""

SPOOLED_CHARACTERS = 1 << 24
"""Text for standard output beyond this length waits in a file."""


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
    """Write text to a file, or to standard output for ``None`` or ``-``, whole or not at all.

    Raises:
        InputError: the file cannot be written; one of this name is as it was.
    """
    if path is None or str(path) == "-":
        # Who reads it must not take the part before an error for all.
        with SpooledTemporaryFile(SPOOLED_CHARACTERS, "w+", encoding="utf-8", newline="") as whole:
            # One by one: several at once would all be in memory first.
            for part in parts:
                whole.write(part)
            whole.seek(0)
            shutil.copyfileobj(whole, sys.stdout)
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
def naming_the_fabric(file: Path, parts: re.Pattern[str] = OPTICAL_PARTS) -> Iterator[None]:
    """Name the file of a fabric in errors about what it has.

    Args:
        file: the fabric.
        parts: matches the begin of the fields that are in this file.

    Raises:
        InputError: that of the body, with the file.
    """
    try:
        yield
    except InputError as error:
        raise (error.with_source(str(file)) if parts.match(error.field) else error) from None


def about_a_fabric(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that names the file of its option ``fabric`` in errors about the fabric."""

    @functools.wraps(command)
    def naming(*, fabric: Path | None, **options: Any) -> None:
        if fabric is None:
            command(fabric=fabric, **options)
            return
        with naming_the_fabric(fabric, FABRIC_PARTS):
            command(fabric=fabric, **options)

    return naming
