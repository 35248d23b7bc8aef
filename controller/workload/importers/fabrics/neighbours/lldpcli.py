"""``lldpcli show neighbors -f json`` or ``-f json0`` of lldpd, also in SONiC, Cumulus Linux and on servers.

The node that it ran on is the file's name without its ending (``leaf1.json``). A neighbour is a switch if it says
that it bridges or routes (IEEE 802.1AB, 8.5.8, system capabilities) or its description names a switch's operating
system; servers often bridge for containers, so a description wins. A node whose file is given and that has such a
neighbour as a server below it is a switch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controller.workload.importers.base import Source
from controller.workload.importers.documents import mapping
from controller.workload.importers.fabrics.neighbours.kinds import is_switch_by_system
from controller.workload.importers.fabrics.neighbours.reports import Reports, stem
from controller.workload.importers.fabrics.neighbours.speeds import from_media


def add_lldpcli(reports: Reports, document: dict[str, Any], source: Source) -> None:
    """Add the neighbours of a node.

    Raises:
        InputError: names the field.
    """
    name = stem(source)
    reports.own.append(name)
    value = document["lldp"]
    rows = _from_json0(value) if isinstance(value, list) else value
    interfaces = mapping(rows, source, "lldp").get("interface") or []
    for i, (port, row) in enumerate(_interfaces(interfaces, source)):
        where = f"lldp.interface[{i}]"
        chassis = mapping(mapping(row, source, where).get("chassis") or {}, source, f"{where}.chassis")
        if not chassis:
            continue
        peer, about = next(iter(chassis.items()))
        if not isinstance(about, dict) or "value" in (_of(chassis, "id") or {}):
            # A chassis without a name is identified by its id.
            peer, about = str((_of(chassis, "id") or {}).get("value", "unnamed")), chassis
        is_switch = _is_switch(about)
        if is_switch is not None:
            reports.is_switch.setdefault(peer, is_switch)
        port_of_peer = _of(row, "port")
        ident = _of(port_of_peer, "id") or {}
        end, kind = _of(ident, "value"), _of(ident, "type")
        # On Linux the description is the interface where the id is its address.
        described = _of(port_of_peer, "descr")
        medium = _of(_of(port_of_peer, "auto-negotiation"), "current")
        reports.cable(
            (name, port),
            (peer, str(end or f"{name} {port}")),
            from_media(medium),
            is_port=bool(end) and kind in ("ifname", "local"),
            interface=described if isinstance(described, str) and kind == "mac" else None,
        )
        if is_switch is False:
            reports.is_switch.setdefault(name, True)


def _from_json0(rows: list[Any]) -> dict[str, Any]:
    """Convert the output of ``-f json0``, in which everything is a list, to the form of ``-f json``."""
    interfaces: list[dict[str, Any]] = []
    for row in (row for group in rows if isinstance(group, dict) for row in group.get("interface") or []):
        chassis, port = _first(row, "chassis"), _first(row, "port")
        about = {
            "id": _first(chassis, "id"),
            "descr": _first(chassis, "descr").get("value", ""),
            "capability": chassis.get("capability"),
        }
        name = _first(chassis, "name").get("value")
        about_port = {"id": _first(port, "id"), "descr": _first(port, "descr").get("value")}
        neighbour = {"chassis": {name: about} if name else about, "port": about_port}
        interfaces.append({str(_of(row, "name")): neighbour})
    return {"interface": interfaces}


def _first(row: Any, key: str) -> dict[str, Any]:
    rows = _of(row, key)
    one = rows[0] if isinstance(rows, list) and rows else rows
    return one if isinstance(one, dict) else {}


def _of(row: Any, key: str) -> Any:
    return row.get(key) if isinstance(row, dict) else None


def _interfaces(rows: Any, source: Source) -> Iterator[tuple[str, Any]]:
    """Yield interfaces from a list of mappings, or from one mapping (of one interface, or of old versions)."""
    for row in rows if isinstance(rows, list) else [rows]:
        yield from ((str(port), value) for port, value in mapping(row, source, "lldp.interface").items())


def _is_switch(about: dict[str, Any]) -> bool | None:
    by_system = is_switch_by_system(str(about.get("descr", "")))
    if by_system is not None:
        return by_system
    rows = about.get("capability")
    rows = rows if isinstance(rows, list) else [rows] if isinstance(rows, dict) else []
    if not rows:
        return None
    return any(
        isinstance(row, dict) and row.get("type") in ("Bridge", "Router") and row.get("enabled") is True for row in rows
    )
