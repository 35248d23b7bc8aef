"""Reader of traces from other tools: a CSV file with one row per hop.

The first line names the columns, in any order: ``flow`` (a name), ``hop`` (1, 2, .. along the path), ``switch``,
``port`` (the egress port of the flow), and optionally ``bytes`` (of the flow, equal in all of its rows). A path has
one hop (within a leaf), three (leaf, spine, leaf), or in three layers five (leaf, aggregation switch, core, aggregation
switch, leaf). The last hop, which sends to the host, may be left out.
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
from controller.telemetry.trace_summary import THREE_LAYERS, TWO_LAYERS, layer_of, link_rows

REQUIRED = ("flow", "hop", "switch", "port")
OPTIONAL = ("bytes",)


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
            paths = _parsed(csv.reader(file, strict=True), str(path), 3 if fabric is None else len(fabric.layers))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", source=str(path)) from None
    deepest = max(len(each.hops) for each in paths.values())
    named = _Names(str(path), fabric, _layers(fabric, deepest))
    flows = [named.flow(name, each) for name, each in paths.items()]
    return named.links(), flows


def _parsed(reader: Any, source: str, n_layers: int) -> dict[str, _Path]:
    try:
        columns = _columns(next(reader, []), source)
        paths: dict[str, _Path] = {}
        for row in reader:
            if row:
                _add(paths, columns, row, f"{source}:{reader.line_num}", reader.line_num, n_layers)
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


def _layers(fabric: Fabric | None, deepest: int) -> tuple[str, ...]:
    """Return the layers of the network's links; without a fabric, those that the longest path needs."""
    n_layers = len(fabric.layers) if fabric is not None else 2 if deepest <= _most_hops(2) else 3
    return TWO_LAYERS if n_layers == 2 else THREE_LAYERS


def _most_hops(n_layers: int) -> int:
    return 2 * n_layers - 1


def _add(
    paths: dict[str, _Path], columns: Mapping[str, int], row: Sequence[str], source: str, line: int, n_layers: int
) -> None:
    if len(row) != len(columns):
        raise InputError(f"has {len(row)} columns; the first line has {len(columns)}", source=source)
    value = {name: row[i].strip() for name, i in columns.items()}
    for name in ("flow", "switch", "port"):
        if not value[name]:
            raise InputError("must not be empty", field=name, source=source)
    hop = _whole(value["hop"], "hop", source)
    most = _most_hops(n_layers)
    if not 1 <= hop <= most:
        reason = f"must be 1 to {most} in a fabric of {n_layers} layers of switches"
        raise InputError(reason, field="hop", value=hop, source=source)
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

    def __init__(self, source: str, fabric: Fabric | None, layers: tuple[str, ...]) -> None:
        self._source, self._fabric, self._layers = source, fabric, layers
        self._seen: dict[str, str] = {}
        self._ports = {} if fabric is None else cable_ports(fabric)

    def flow(self, name: str, path: _Path) -> dict[str, Any]:
        """Return one flow as a trace document contains it."""
        count = len(path.hops)
        if sorted(path.hops) != list(range(1, count + 1)):
            missing = min(set(range(1, count + 1)) - path.hops.keys())
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
            "plane": None,
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
        layer = self._layer(hop, count)
        if self._fabric is None:
            name = f"{switch}:{port}"
            if layer is not None and self._seen.setdefault(name, layer) != layer:
                reason = f"is one of the {self._seen[name]} in one line and of the {layer} in another"
                raise InputError(reason, value=name, source=source)
            return name
        if switch not in self._fabric.layer_of:
            raise InputError("the fabric has no switch of this name", field="switch", value=switch, source=source)
        link = self._ports.get((switch, _whole(port, "port", source)))
        if link is None:
            raise InputError(f"nothing is connected to this port of {switch}", field="port", value=port, source=source)
        if layer != (layer_of(self._fabric, link) if link >= self._fabric.first_cable_link else None):
            name = self._fabric.link_ids[link]
            raise InputError(f"hop {hop} of {count} is {name}", field="port", value=port, source=source)
        return self._fabric.link_ids[link]

    def _layer(self, hop: int, count: int) -> str | None:
        """Return the layer of the link of a hop, by the number of hops of its path; ``None``: it leads to a host.

        A path that does not reach the cores has the outermost layers only.
        """
        own = self._layers if count > _most_hops(2) else (self._layers[0], self._layers[-1])
        return own[hop - 1] if count > 1 and hop <= len(own) else None

    def links(self) -> list[dict[str, Any]]:
        """Return the links between switches, over which imbalance is computed."""
        if self._fabric is not None:
            return link_rows(self._fabric)
        return [{"id": name, "layer": layer, "gbps": None} for name, layer in sorted(self._seen.items())]
