"""Importer ``cabling``: tables of cables as CSV, with two devices and their ports in each row.

The columns are known by their headings: NetBox's (``side_a_device``, ``side_a_name``, .., and those of its tables,
``Device A``, ``Termination A``, ..) and Arista AVD's (``Node Type``, ``Node``, ``Node Interface``, ``Peer Type``,
``Peer Node``, ``Peer Interface``). A device is a switch by its type, where the table has one, else by the names of its
ports, else by its own name. A column ``speed`` is in Gbit/s, or has a medium's name (100GBASE-CR4).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from controller.model.errors import InputError
from controller.model.files.fabric_forms import MAX_GBPS
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.documents import content
from controller.workload.importers.fabrics.graph import fabric_of
from controller.workload.importers.fabrics.neighbours.kinds import is_switch_by_role, is_switch_port
from controller.workload.importers.fabrics.neighbours.reports import Reports
from controller.workload.importers.fabrics.neighbours.speeds import from_media
from controller.workload.importers.fields import SourceLine
from controller.workload.importers.head import Head

_COLUMNS = {
    "a": ("side_a_device", "device_a", "a_device", "termination_a_device", "node", "local_device"),
    "a_port": ("side_a_name", "termination_a", "a_port", "node_interface", "local_port", "side_a_port"),
    "a_kind": ("node_type", "a_role"),
    "b": ("side_b_device", "device_b", "b_device", "termination_b_device", "peer_node", "remote_device"),
    "b_port": ("side_b_name", "termination_b", "b_port", "peer_interface", "remote_port", "side_b_port"),
    "b_kind": ("peer_type", "b_role"),
    "speed": ("speed", "speed_gbps", "gbps"),
}
"""Headings of each column, in lower case with underscores."""

_NEEDED = ("a", "a_port", "b", "b_port")
_MAX_CELL = 1000


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    first = head.lines[0] if head.lines else ""
    known = _columns(next(csv.reader([first], delimiter=_delimiter(first)), []))
    return "a table of cables (NetBox, AVD): a fabric" if all(name in known for name in _NEEDED) else ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric from one or more tables.

    Raises:
        InputError: a table lacks a column, a row lacks a device, or the network is not a fabric of two or three layers.
    """
    reports = Reports()
    for source in sources:
        for place, row in _rows(source):
            ends = []
            for side in ("a", "b"):
                node, port = row[side], row[f"{side}_port"]
                if not node or not port:
                    raise place.error(f"lacks a {'port' if node else 'device'}", ",".join(row.values()))
                by_role = is_switch_by_role(row.get(f"{side}_kind", ""))
                if by_role is not None:
                    reports.is_switch[node] = by_role
                elif is_switch_port(port):
                    reports.is_switch.setdefault(node, True)
                ends.append((node, port))
            reports.cable(ends[0], ends[1], _gbps(place, row.get("speed", "")))
    if not sources:
        raise InputError("no file is given")
    for name in reports.nodes():
        by_name = is_switch_by_role(re.sub(r"[-_.\d]+", " ", name))
        if by_name is not None:
            reports.is_switch.setdefault(name, by_name)
    return fabric_of(reports.graph("cabling", sources[0]), request)


def _rows(source: Source) -> Iterator[tuple[SourceLine, dict[str, str]]]:
    try:
        text = content(source).decode()
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", source=source.name) from None
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(text.partition("\n")[0]))
    try:
        columns = _columns(next(reader, []))
        lacking = [name for name in _NEEDED if name not in columns]
        if lacking:
            heading = _COLUMNS[lacking[0]]
            raise SourceLine(source, 1).error(f"no column has one of the headings {', '.join(heading)}")
        for cells in reader:
            if any(cell.strip() for cell in cells):
                place = SourceLine(source, reader.line_num)
                yield (
                    place,
                    {name: cells[i].strip()[:_MAX_CELL] for name, i in columns.items() if i < len(cells)}
                    | {name: "" for name, i in columns.items() if i >= len(cells)},
                )
    except csv.Error as error:
        raise SourceLine(source, reader.line_num).error(f"is not CSV: {error}") from None


def _columns(headings: Sequence[str]) -> dict[str, int]:
    """Return the position of each known column."""
    plain = [re.sub(r"[^a-z0-9]+", "_", heading.strip().lower()).strip("_") for heading in headings]
    return {
        name: next(plain.index(one) for one in known if one in plain)
        for name, known in _COLUMNS.items()
        if any(one in plain for one in known)
    }


def _delimiter(first: str) -> str:
    return ";" if first.count(";") > first.count(",") else ","


def _gbps(place: SourceLine, text: str) -> float | None:
    if not text:
        return None
    by_media = from_media(text)
    if by_media is not None:
        return by_media
    match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,6})?)\s*(?:g|gbps|gbit/s)?", text, re.IGNORECASE | re.ASCII)
    if match is None or not 0 < float(match[1]) <= MAX_GBPS:
        raise place.error("is not a speed in Gbit/s", text)
    return float(match[1])
