"""Functions with which commands write files."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from controller.cli.output import print_json
from controller.model.errors import InputError


def write_document(path: Path | None, document: dict[str, Any]) -> None:
    """Write a document to a file as YAML or JSON, by its suffix, or to standard output for ``None`` or ``-``.

    Raises:
        InputError: the file cannot be written.
    """
    import orjson

    from controller.model.fabric_file import yaml_of

    if path is None or str(path) == "-":
        print_json(orjson.dumps(document, option=orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0))
    elif path.suffix.lower() in (".yaml", ".yml"):
        write_text(path, [yaml_of(document)])
    else:
        write_text(path, [orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()])


def write_text(path: Path | None, parts: Iterable[str]) -> None:
    """Write text to a file, piece by piece, or to standard output for ``None`` or ``-``.

    Raises:
        InputError: the file cannot be written.
    """
    if path is None or str(path) == "-":
        sys.stdout.writelines(parts)
        return
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(parts)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=str(path)) from None


def replace_private(path: Path, text: str) -> None:
    """Replace a file atomically by a new one with mode 0600; concurrent readers see one of the two, complete.

    Raises:
        InputError: the file cannot be written.
    """
    path = path.resolve()
    try:
        # mkstemp makes it readable for its owner alone.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w") as file:
                if path.exists() and os.geteuid() == 0:
                    # If root changes another user's file, that user must still be able to read it.
                    owner = path.stat()
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=str(path)) from None
