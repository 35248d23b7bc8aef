"""How commands write documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from controller.cli.output import print_json
from controller.model.errors import InputError


def write_document(path: Path | None, document: dict[str, Any]) -> None:
    """A document to a file, YAML or JSON by its suffix; to standard output where there is none, or it is ``-``.

    Raises:
        InputError: the file cannot be written.
    """
    import orjson
    import yaml

    if path is None or str(path) == "-":
        print_json(orjson.dumps(document, option=orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0))
        return
    if path.suffix.lower() in (".yaml", ".yml"):
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        content = yaml.dump(document, Dumper=dumper, sort_keys=False, default_flow_style=None).encode()
    else:
        content = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=str(path)) from None
