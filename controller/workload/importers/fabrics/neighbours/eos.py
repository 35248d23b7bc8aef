"""``show lldp neighbors detail | json`` of Arista EOS, plain or as eAPI returns it; also without ``detail``.

The switch that it ran on is the file's name without its ending. A neighbour is a switch if its description names a
switch's operating system, else if it says that it bridges or routes and its port has a switch's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.documents import items, mapping
from controller.workload.importers.fabrics.neighbours.kinds import is_switch_by_system, is_switch_port
from controller.workload.importers.fabrics.neighbours.reports import Reports, stem
from controller.workload.importers.fabrics.neighbours.speeds import from_media

KEY = "lldpNeighbors"


def eos_document(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the part that has the neighbours, also of an answer of eAPI; ``None``: there is none."""
    results = document.get("result")
    rows = [document, *(results if isinstance(results, list) else [])]
    return next((row for row in rows if isinstance(row, dict) and KEY in row), None)


def add_eos(reports: Reports, document: dict[str, Any], source: Source) -> None:
    """Add the neighbours of a switch.

    Raises:
        InputError: names the field.
    """
    name = stem(source)
    reports.own.append(name)
    reports.is_switch[name] = True
    for port, row, where in _rows(document[KEY], source):
        about = mapping(row.get("neighborInterfaceInfo") or {}, source, f"{where}.neighborInterfaceInfo")
        peer = row.get("systemName") or row.get("neighborDevice") or row.get("chassisId")
        if not isinstance(peer, str) or not peer:
            raise InputError("has no name and no chassis", source=source.name, field=where, value=row)
        end = about.get("interfaceId_v2") or about.get("interfaceId") or row.get("neighborPort") or ""
        end = str(end).strip('"')
        is_name = about.get("interfaceIdType", "interfaceName") in ("interfaceName", "local") and bool(end)
        is_switch = is_switch_by_system(str(row.get("systemDescription") or ""))
        can = row.get("systemCapabilities")
        if is_switch is None and isinstance(can, dict) and can:
            is_switch = (can.get("bridge") is True or can.get("router") is True) and is_switch_port(end)
        if is_switch is None and is_switch_port(end):
            is_switch = True
        if is_switch is not None:
            reports.is_switch.setdefault(peer, is_switch)
        reports.cable(
            (name, port), (peer, end or f"{name} {port}"), from_media(about.get("operMauType")), is_port=is_name
        )


def _rows(value: Any, source: Source) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield port, neighbour and place: by port with details, or as a list without."""
    if isinstance(value, list):
        for i, row in enumerate(value):
            where = f"{KEY}[{i}]"
            one = mapping(row, source, where)
            if not isinstance(one.get("port"), str):
                raise InputError("has no port", source=source.name, field=where, value=one)
            yield one["port"], one, where
        return
    for port, row in mapping(value, source, KEY).items():
        where = f"{KEY}.{port}.lldpNeighborInfo"
        rows = mapping(row, source, f"{KEY}.{port}").get("lldpNeighborInfo")
        for i, one in enumerate(items(rows, source, where)):
            yield str(port), mapping(one, source, f"{where}[{i}]"), f"{where}[{i}]"
