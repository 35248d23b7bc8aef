"""SONiC's CONFIG_DB, as in ``/etc/sonic/config_db.json`` or as ``sonic-db-dump`` writes it.

It names its own node (``DEVICE_METADATA``), its neighbours (``DEVICE_NEIGHBOR``), what they are
(``DEVICE_NEIGHBOR_METADATA``) and the speeds of its ports in Mbit/s (``PORT``).
"""

from __future__ import annotations

from typing import Any

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.documents import mapping
from controller.workload.importers.fabrics.neighbours.kinds import is_switch_by_role, is_switch_port
from controller.workload.importers.fabrics.neighbours.reports import Reports, stem
from controller.workload.importers.fabrics.neighbours.speeds import from_mbps


def is_config_db(document: dict[str, Any]) -> bool:
    """Return whether a document is a CONFIG_DB."""
    return "DEVICE_NEIGHBOR" in document or "DEVICE_METADATA" in document


def add_config_db(reports: Reports, document: dict[str, Any], source: Source) -> None:
    """Add what a switch's CONFIG_DB says of its neighbours.

    Raises:
        InputError: names the field.
    """
    about = mapping(document.get("DEVICE_METADATA") or {}, source, "DEVICE_METADATA")
    local = mapping(about.get("localhost") or {}, source, "DEVICE_METADATA.localhost")
    name = str(local.get("hostname") or stem(source))
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
        kind, end = str(about_it.get("type", row.get("type", ""))), str(row.get("port", port))
        if kind and peer not in reports.own:
            reports.is_switch[peer] = is_switch_by_role(kind) is True
        elif is_switch_port(end):
            reports.is_switch.setdefault(peer, True)
        about_port = mapping(ports.get(port) or {}, source, f"PORT.{port}")
        gbps = from_mbps(about_port.get("speed"), source, f"PORT.{port}.speed")
        reports.cable((name, str(port)), (peer, end), gbps, is_port="port" in row)


def tables_of(document: dict[str, Any], source: Source) -> dict[str, Any]:
    """Convert a dump (``sonic-db-dump``: ``TABLE|KEY`` with ``value``) to the form of ``config_db.json``."""
    if not any("|" in key for key in document):
        return document
    tables: dict[str, Any] = {}
    for key, row in document.items():
        table, _, name = key.partition("|")
        fields = mapping(row, source, key)
        tables.setdefault(table, {})[name] = fields["value"] if isinstance(fields.get("value"), dict) else fields
    return tables
