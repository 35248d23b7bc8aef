"""The inventory: the host of the fabric for each NIC of each server.

YAML or JSON, with servers as the imported files spell them, each with its NICs by name or by index, in a list by index,
or with the one host of all its NICs::

    node1: {mlx5_0: h1, mlx5_1: h2}
    node2: [h5, h6]
    node3: h9

or CSV with the header ``server,nic,host``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import read_document

ANY_NIC = "*"

Inventory = Mapping[tuple[str, str], str]

_COLUMNS = ["server", "nic", "host"]


def load_inventory(path: str | Path, fabric: Fabric | None = None) -> Inventory:
    """Read an inventory file; CSV by its suffix.

    Args:
        path: the inventory file.
        fabric: a fabric that must have every named host; ``None``: no check.

    Raises:
        InputError: the file cannot be read or is not an inventory.
    """
    try:
        if Path(path).suffix.lower() == ".csv":
            return _checked(_csv_rows(Path(path)), fabric)
        return parse_inventory(read_document(path), fabric)
    except InputError as error:
        raise error.with_source(str(path)) from None


def parse_inventory(document: Any, fabric: Fabric | None = None) -> Inventory:
    """Parse an inventory from plain data.

    Raises:
        InputError: the first error found.
    """
    if not isinstance(document, dict):
        raise InputError("an inventory must be a mapping from servers to their NICs", value=document)
    return _checked(_rows(document), fabric)


def _rows(document: dict[Any, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """Yield field, server, NIC and host."""
    for server, nics in document.items():
        if isinstance(nics, dict):
            for nic, host in nics.items():
                yield f"{server}.{nic}", str(server), str(nic), host
        elif isinstance(nics, list):
            for i, host in enumerate(nics):
                yield f"{server}[{i}]", str(server), str(i), host
        else:
            yield str(server), str(server), ANY_NIC, nics


def _csv_rows(path: Path) -> Iterator[tuple[str, str, str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text") from None
    rows = csv.reader(io.StringIO(text))
    try:
        header = [cell.strip().lower() for cell in next(rows, [])]
        if header != _COLUMNS:
            raise InputError(f"the header must be {','.join(_COLUMNS)}", field="line 1", value=",".join(header))
        for row in rows:
            if not row:
                continue
            if len(row) != len(_COLUMNS):
                raise InputError(f"a row must have {len(_COLUMNS)} columns", field=f"line {rows.line_num}", value=row)
            server, nic, host = (cell.strip() for cell in row)
            yield f"line {rows.line_num}", server, nic or ANY_NIC, host
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", field=f"line {rows.line_num}") from None


def _checked(rows: Iterator[tuple[str, str, str, Any]], fabric: Fabric | None) -> Inventory:
    inventory: dict[tuple[str, str], str] = {}
    for field, server, nic, host in rows:
        if not isinstance(host, str) or not host:
            raise InputError("a NIC must be given as the name of a host", field=field, value=host)
        if fabric is not None and host not in fabric.host_index:
            raise InputError("the fabric has no host of this name", field=field, value=host)
        if inventory.setdefault((server, nic), host) != host:
            raise InputError(
                f"this NIC is already mapped to {inventory[server, nic]}", field=field, value=f"{server} {nic} {host}"
            )
    return inventory
