"""Importer ``lldp``: ``lldpcli show neighbors -f json`` (or ``json0``) and SONiC's CONFIG_DB, a file a node.

The node that ``lldpcli`` ran on is the file's name without its ending (``leaf1.json``). A CONFIG_DB names its own node
(``DEVICE_METADATA``), its neighbours (``DEVICE_NEIGHBOR``), what they are (``DEVICE_NEIGHBOR_METADATA``) and the speeds
of its ports. By LLDP a neighbour is a switch if it says that it bridges or routes (IEEE 802.1AB, 8.5.8, system
capabilities) or its description names a switch's operating system; servers often bridge for containers, so a
description wins. A node whose file is given and that has such a neighbour as a server below it is a switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.documents import json_document, mapping
from controller.workload.importers.fabrics.graph import Graph, ReadCable, fabric_of
from controller.workload.importers.head import Head

_SWITCH_SYSTEMS = re.compile(
    r"sonic|cumulus|arista|\beos\b|nx-os|nexus|cisco|juniper|junos|sr ?linux|nokia|onyx|mlnx-os|"
    r"dell.*(os10|networking)|ocnos|dent\b|open.?switch",
    re.IGNORECASE,
)
_SERVER_SYSTEMS = re.compile(r"ubuntu|debian|red hat|centos|rocky|alma|suse|windows|vmware|dgx", re.IGNORECASE)
_SONIC_SWITCHES = ("router", "switch", "fabric", "spine", "leaf")
_SONIC_PORT = re.compile(r"(?:Ethernet|et-|xe-|swp|ethernet-)\d+[\d/:]*|\d+/\d+(?:/\d+)*")
"""Port names of switches (SONiC, EOS, Junos, Cumulus, SR Linux), which servers do not use."""


@dataclass(eq=False)
class _ReportedCable:
    """A cable between two nodes, as reported by one of them."""

    a: str
    b: str
    gbps: float | None

    @property
    def nodes(self) -> set[str]:
        """The nodes at its two ends."""
        return {self.a, self.b}


@dataclass
class _Reports:
    """The contents of the files: cables, also by end (node, port), and which nodes are switches."""

    cables: list[_ReportedCable] = field(default_factory=list)
    by_end: dict[tuple[str, str], list[_ReportedCable]] = field(default_factory=dict)
    is_switch: dict[str, bool] = field(default_factory=dict)
    own: list[str] = field(default_factory=list)

    def cable(self, here: tuple[str, str], there: tuple[str, str], gbps: float | None) -> None:
        """Add a cable reported by the node of ``here``.

        The neighbour may report another name of its port than its LLDP sends (an interface, its MAC address), so a
        cable is identified by either end.
        """
        nodes = {here[0], there[0]}
        for end in (there, here):
            for one in self.by_end.get(end, ()):
                if one.nodes == nodes:
                    one.gbps = gbps if one.gbps is None else one.gbps
                    self._known_by(one, here, there)
                    return
        one = _ReportedCable(here[0], there[0], gbps)
        self.cables.append(one)
        self._known_by(one, here, there)

    def _known_by(self, one: _ReportedCable, *ends: tuple[str, str]) -> None:
        for end in ends:
            rows = self.by_end.setdefault(end, [])
            if one not in rows:
                rows.append(one)


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if (
        any(key.startswith("DEVICE_NEIGHBOR|") for key in head.keys)
        or head.keys >= {"DEVICE_NEIGHBOR"}
        or head.keys >= {"DEVICE_METADATA", "PORT"}
    ):
        return "SONiC's CONFIG_DB of one switch: a part of a fabric"
    if head.keys >= {"lldp", "interface"} or head.keys >= {"lldp", "chassis"}:
        return "LLDP neighbours of one node (lldpcli -f json): a part of a fabric"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: a file is of neither kind, or the network is not a fabric of two or three layers.
    """
    reports = _Reports()
    for source in sources:
        document = _tables(mapping(json_document(source), source, ""), source)
        if "DEVICE_NEIGHBOR" in document or "DEVICE_METADATA" in document:
            _sonic(reports, document, source)
        elif "lldp" in document:
            _lldp(reports, document, source)
        else:
            raise InputError("is neither LLDP neighbours (lldp) nor a CONFIG_DB (DEVICE_NEIGHBOR)", source=source.name)
    if not sources:
        raise InputError("no file is given")
    graph = Graph("lldp", sources[0].name)
    names = dict.fromkeys(node for one in reports.cables for node in sorted(one.nodes)) | dict.fromkeys(reports.own)
    for name in names:
        (graph.switches if reports.is_switch.get(name, False) else graph.servers)[name] = None
    graph.cables = [
        ReadCable(min(one.nodes), max(one.nodes), one.gbps)
        for one in sorted(reports.cables, key=lambda one: sorted(one.nodes))
        if len(one.nodes) == 2
    ]
    guessed = sorted(name for name in graph.servers if name not in reports.is_switch)
    imported = fabric_of(graph, request)
    if guessed and reports.own:
        warning = (
            f"the kind of {len(guessed)} neighbours is unknown, {', '.join(guessed[:3])}{' ..' * (len(guessed) > 3)}: "
            "they are assumed to be servers"
        )
        imported = replace(imported, warnings=(warning, *imported.warnings))
    return imported


def _sonic(reports: _Reports, document: dict[str, Any], source: Source) -> None:
    about = mapping(document.get("DEVICE_METADATA") or {}, source, "DEVICE_METADATA")
    local = mapping(about.get("localhost") or {}, source, "DEVICE_METADATA.localhost")
    name = str(local.get("hostname") or _stem(source))
    reports.own.append(name)
    reports.is_switch[name] = True
    ports = mapping(document.get("PORT") or {}, source, "PORT")
    kinds = mapping(document.get("DEVICE_NEIGHBOR_METADATA") or {}, source, "DEVICE_NEIGHBOR_METADATA")
    for key, value in mapping(document.get("DEVICE_NEIGHBOR") or {}, source, "DEVICE_NEIGHBOR").items():
        where = f"DEVICE_NEIGHBOR.{key}"
        row = mapping(value, source, where)
        # An older form has the neighbour's name as its key, and the port as local_port.
        port, peer = (row["local_port"], row.get("name", key)) if "local_port" in row else (key, row.get("name"))
        if not isinstance(peer, str) or not peer:
            raise InputError("has no name", source=source.name, field=where, value=row)
        about_it = mapping(kinds.get(peer) or {}, source, f"DEVICE_NEIGHBOR_METADATA.{peer}")
        kind, end = str(about_it.get("type", row.get("type", ""))).lower(), str(row.get("port", port))
        if kind and peer not in reports.own:
            reports.is_switch[peer] = any(word in kind for word in _SONIC_SWITCHES)
        elif _SONIC_PORT.fullmatch(end):
            reports.is_switch.setdefault(peer, True)
        speed = mapping(ports.get(port) or {}, source, f"PORT.{port}").get("speed")
        gbps = int(speed) / 1000 if isinstance(speed, str | int) and str(speed).isdigit() and int(speed) > 0 else None
        reports.cable((name, str(port)), (peer, end), gbps)


def _tables(document: dict[str, Any], source: Source) -> dict[str, Any]:
    """Convert a dump (``sonic-db-dump``: ``TABLE|KEY`` with ``value``) to the form of ``config_db.json``."""
    if not any("|" in key for key in document):
        return document
    tables: dict[str, Any] = {}
    for key, row in document.items():
        table, _, name = key.partition("|")
        fields = mapping(row, source, key)
        tables.setdefault(table, {})[name] = fields["value"] if isinstance(fields.get("value"), dict) else fields
    return tables


def _lldp(reports: _Reports, document: dict[str, Any], source: Source) -> None:
    name = _stem(source)
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
            peer, about = str((chassis.get("id") or {}).get("value", "unnamed")), chassis
        is_switch = _is_switch(about)
        if is_switch is not None:
            reports.is_switch.setdefault(peer, is_switch)
        end = ((row.get("port") or {}).get("id") or {}).get("value")
        reports.cable((name, port), (peer, str(end or f"{name} {port}")), None)
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
        neighbour = {"chassis": {name: about} if name else about, "port": {"id": _first(port, "id")}}
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
    described = str(about.get("descr", ""))
    if _SWITCH_SYSTEMS.search(described):
        return True
    if _SERVER_SYSTEMS.search(described):
        return False
    rows = about.get("capability")
    rows = rows if isinstance(rows, list) else [rows] if isinstance(rows, dict) else []
    if not rows:
        return None
    return any(
        isinstance(row, dict) and row.get("type") in ("Bridge", "Router") and row.get("enabled") is True for row in rows
    )


def _stem(source: Source) -> str:
    file = source.name.replace("\\", "/").rpartition("/")[2]
    return file.removesuffix(".gz").rpartition(".")[0] or file
