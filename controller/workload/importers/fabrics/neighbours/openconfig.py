"""The tree ``/lldp`` of OpenConfig (openconfig-lldp.yang) as JSON (RFC 7951), as gNMI or RESTCONF return it.

The node is ``system-name`` of the tree, else the file's name without its ending.
"""

from __future__ import annotations

from typing import Any

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.documents import items, mapping
from controller.workload.importers.fabrics.neighbours.kinds import is_switch_by_system, is_switch_port
from controller.workload.importers.fabrics.neighbours.reports import Reports, stem

_DEPTH = 40


def openconfig_document(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the tree ``/lldp`` without prefixes of modules; ``None``: there is none."""
    plain = _plain(document, _DEPTH)
    inner = plain.get("lldp", plain)
    return inner if isinstance(inner, dict) and isinstance(inner.get("interfaces"), dict) else None


def add_openconfig(reports: Reports, document: dict[str, Any], source: Source) -> None:
    """Add the neighbours of a node.

    Raises:
        InputError: names the field.
    """
    own = [document.get(key) for key in ("state", "config")]
    names = [row.get("system-name") for row in own if isinstance(row, dict)]
    name = next((text for text in names if isinstance(text, str) and text), stem(source))
    reports.own.append(name)
    interfaces = document["interfaces"].get("interface") or []
    for i, value in enumerate(items(interfaces, source, "interfaces.interface")):
        where = f"interfaces.interface[{i}]"
        row = mapping(value, source, where)
        port = row.get("name")
        if not isinstance(port, str) or not port:
            raise InputError("has no name", source=source.name, field=where, value=row)
        others = mapping(row.get("neighbors") or {}, source, f"{where}.neighbors").get("neighbor") or []
        for k, one in enumerate(items(others, source, f"{where}.neighbors.neighbor")):
            _add(reports, (name, port), mapping(one, source, f"{where}.neighbors.neighbor[{k}]"), source, where)


def _add(reports: Reports, here: tuple[str, str], neighbour: dict[str, Any], source: Source, where: str) -> None:
    state = mapping(neighbour.get("state") or {}, source, f"{where}.neighbors.neighbor.state")
    peer = state.get("system-name") or state.get("chassis-id")
    if not isinstance(peer, str) or not peer:
        raise InputError("has a neighbour without name and chassis", source=source.name, field=where, value=state)
    end = str(state.get("port-id") or "")
    is_switch = is_switch_by_system(str(state.get("system-description") or ""))
    rows = _capabilities(neighbour)
    if is_switch is None and rows:
        is_switch = bool(rows & {"MAC_BRIDGE", "ROUTER"}) and is_switch_port(end)
    if is_switch is None and is_switch_port(end):
        is_switch = True
    if is_switch is not None:
        reports.is_switch.setdefault(peer, is_switch)
    if is_switch is False:
        reports.is_switch.setdefault(here[0], True)
    kind = str(state.get("port-id-type", "INTERFACE_NAME")).rpartition(":")[2]
    is_port = kind in ("INTERFACE_NAME", "LOCAL") and bool(end)
    reports.cable(here, (peer, end or f"{here[0]} {here[1]}"), is_port=is_port)


def _capabilities(neighbour: dict[str, Any]) -> set[str]:
    """Return the enabled capabilities, without the module's prefix."""
    inside = neighbour.get("capabilities")
    rows = inside.get("capability") if isinstance(inside, dict) else None
    enabled = set()
    for row in rows if isinstance(rows, list) else []:
        state = row.get("state") if isinstance(row, dict) else None
        if isinstance(state, dict) and state.get("enabled") is not False:
            enabled.add(str(row.get("name") or state.get("name")).rpartition(":")[2])
    return enabled


def _plain(value: Any, depth: int) -> Any:
    """Return a value with keys without prefixes of modules."""
    if depth and isinstance(value, dict):
        return {key.rpartition(":")[2]: _plain(below, depth - 1) for key, below in value.items()}
    return [_plain(below, depth - 1) for below in value] if depth and isinstance(value, list) else value
