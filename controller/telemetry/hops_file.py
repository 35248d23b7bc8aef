"""Reader of traces from other tools: a CSV file with one row per hop.

The first line names the columns, in any order: ``flow`` (a name), ``hop`` (1, 2, .. along the path), ``switch``,
``port`` (the egress port of the flow), and optionally ``bytes`` (of the flow, equal in all of its rows). A path has
one hop (within a leaf), two (leaf, spine) or three (leaf, spine, leaf), since fairspine supports two tiers.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.telemetry.trace import cable_ports
from controller.telemetry.trace_summary import LAYERS, link_rows

REQUIRED = ("flow", "hop", "switch", "port")
OPTIONAL = ("bytes",)
MOST_HOPS = 3


@dataclass
class _Path:
    """One flow: the line where it begins, its bytes, and its hops by number."""

    line: int
    bytes: int | None
    hops: dict[int, tuple[int, str, str]] = field(default_factory=dict)


def read_hops(path: Path, fabric: Fabric | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the links and flows of the file in the form that ``trace_summary.summary`` accepts.

    Args:
        path: the CSV file.
        fabric: the fabric of the links: ports are then OpenFlow port numbers, and unused links count too. Without it,
            only links that some flow takes are known, and they are named ``switch:port``.

    Raises:
        InputError: the file cannot be read or is invalid; names the line and the column.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            paths = _parsed(csv.reader(file, strict=True), str(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", source=str(path)) from None
    named = _Names(str(path), fabric)
    flows = [named.flow(name, each) for name, each in paths.items()]
    return named.links(), flows


def _parsed(reader: Any, source: str) -> dict[str, _Path]:
    try:
        columns = _columns(next(reader, []), source)
        paths: dict[str, _Path] = {}
        for row in reader:
            if row:
                _add(paths, columns, row, f"{source}:{reader.line_num}", reader.line_num)
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", source=f"{source}:{reader.line_num}") from None
    if not paths:
        raise InputError("has no flows", source=source)
    return paths


def _columns(head: Sequence[str], source: str) -> dict[str, int]:
    names = [name.strip().removeprefix("\ufeff").lower() for name in head]
    for name in REQUIRED:
        if name not in names:
            raise InputError("the first line does not name this column", field=name, source=f"{source}:1")
    for i, name in enumerate(names):
        if name not in (*REQUIRED, *OPTIONAL):
            known = ", ".join((*REQUIRED, *OPTIONAL))
            raise InputError(f"unknown column; the columns are {known}", field=name, source=f"{source}:1")
        if name in names[:i]:
            raise InputError("this column occurs twice", field=name, source=f"{source}:1")
    return {name: i for i, name in enumerate(names)}


def _add(paths: dict[str, _Path], columns: Mapping[str, int], row: Sequence[str], source: str, line: int) -> None:
    if len(row) != len(columns):
        raise InputError(f"has {len(row)} columns; the first line has {len(columns)}", source=source)
    value = {name: row[i].strip() for name, i in columns.items()}
    for name in ("flow", "switch", "port"):
        if not value[name]:
            raise InputError("must not be empty", field=name, source=source)
    hop = _whole(value["hop"], "hop", source)
    if not 1 <= hop <= MOST_HOPS:
        raise InputError(f"must be 1 to {MOST_HOPS} in a two-tier fabric", field="hop", value=hop, source=source)
    size = _whole(value["bytes"], "bytes", source) if value.get("bytes") else None
    path = paths.setdefault(value["flow"], _Path(line, size))
    if hop in path.hops:
        raise InputError("the flow already has this hop", field="hop", value=hop, source=source)
    if size is not None and path.bytes not in (None, size):
        raise InputError(f"the flow has {path.bytes} in a previous line", field="bytes", value=size, source=source)
    path.bytes = path.bytes if size is None else size
    path.hops[hop] = (line, value["switch"], value["port"])


def _whole(text: str, name: str, source: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InputError("must be an integer", field=name, value=text, source=source)
    return int(text)


class _Names:
    """The names of links, and the set of links that are known."""

    def __init__(self, source: str, fabric: Fabric | None) -> None:
        self._source, self._fabric = source, fabric
        self._seen: dict[str, str] = {}
        self._ports = {} if fabric is None else cable_ports(fabric)

    def flow(self, name: str, path: _Path) -> dict[str, Any]:
        """Return one flow as a trace document contains it."""
        count = len(path.hops)
        if sorted(path.hops) != list(range(1, count + 1)):
            missing = min(set(range(1, MOST_HOPS + 1)) - path.hops.keys())
            source = f"{self._source}:{path.line}"
            raise InputError(f"flow {name} lacks hop {missing}", field="hop", source=source)
        links = [self._link(hop, *path.hops[hop], count) for hop in range(1, count + 1)]
        job, _, rest = name.partition("/")
        return {
            "id": name,
            "piece": 0,
            "job": job if rest else "",
            "collective": rest.rpartition("/")[0],
            "src": "",
            "dst": "",
            "src_rank": None,
            "dst_rank": None,
            "udp_src": None,
            "share": 1.0,
            "planned": None,
            "real": links,
            "how": "given",
            "sure": 1.0,
            "differs": False,
            "why": "",
            "bytes": path.bytes,
            "rate_gbps": None,
        }

    def _link(self, hop: int, line: int, switch: str, port: str, count: int) -> str:
        source = f"{self._source}:{line}"
        if self._fabric is None:
            name = f"{switch}:{port}"
            if count > 1 and hop <= len(LAYERS):
                layer = self._seen.setdefault(name, LAYERS[hop - 1])
                if layer != LAYERS[hop - 1]:
                    raise InputError(
                        "is an egress of a leaf in one line and of a spine in another", value=name, source=source
                    )
            return name
        if switch not in (*self._fabric.leaf_index, *self._fabric.spine_index):
            raise InputError("the fabric has no switch of this name", field="switch", value=switch, source=source)
        link = self._ports.get((switch, _whole(port, "port", source)))
        if link is None:
            raise InputError(f"nothing is connected to this port of {switch}", field="port", value=port, source=source)
        is_cable = link >= self._fabric.first_cable_link
        expected = count > 1 and hop <= len(LAYERS)
        if is_cable != expected or (is_cable and link % 2 != hop - 1):
            name = self._fabric.link_ids[link]
            raise InputError(f"hop {hop} of {count} is {name}", field="port", value=port, source=source)
        return self._fabric.link_ids[link]

    def links(self) -> list[dict[str, Any]]:
        """Return the links between leaves and spines, over which imbalance is computed."""
        if self._fabric is not None:
            return link_rows(self._fabric)
        return [{"id": name, "layer": layer, "gbps": None} for name, layer in sorted(self._seen.items())]
