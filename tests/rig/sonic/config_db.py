"""Tables of CONFIG_DB as data of SONiC's YANG models, and yanglint's opinion of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

MODELS = Path(__file__).parent / "models"
"""What SONiC's models ask, in our own words: these are under another licence."""


class _Lists(NamedTuple):
    """Where a table is in the models.

    Attributes:
        module: its name, that of its container, and the end of its namespace.
        keys: of the lists of the table, by their names; rows go to the list that has as many keys.
        inner: the keys of a list of the table's name within rows, whose members are leaves of one value.
    """

    module: str
    keys: Mapping[str, tuple[str, ...]]
    inner: tuple[str, str] | None = None


def _one(module: str, table: str, *keys: str, inner: tuple[str, str] | None = None) -> _Lists:
    return _Lists(module, {f"{table}_LIST": keys}, inner)


TABLES = {
    "PORT": _one("sonic-port", "PORT", "name"),
    "INTERFACE": _Lists(
        "sonic-interface", {"INTERFACE_LIST": ("name",), "INTERFACE_IPPREFIX_LIST": ("name", "ip-prefix")}
    ),
    "SRV6_MY_LOCATORS": _one("sonic-srv6", "SRV6_MY_LOCATORS", "locator_name"),
    "SRV6_MY_SIDS": _one("sonic-srv6", "SRV6_MY_SIDS", "locator", "ip_prefix"),
    "STATIC_ROUTE": _one("sonic-static-route", "STATIC_ROUTE", "vrf_name", "prefix"),
    "ACL_TABLE": _one("sonic-acl", "ACL_TABLE", "ACL_TABLE_NAME"),
    "ACL_RULE": _one("sonic-acl", "ACL_RULE", "ACL_TABLE_NAME", "RULE_NAME"),
    "SCHEDULER": _one("sonic-scheduler", "SCHEDULER", "name"),
    "DSCP_TO_TC_MAP": _one("sonic-dscp-tc-map", "DSCP_TO_TC_MAP", "name", inner=("dscp", "tc")),
    "TC_TO_QUEUE_MAP": _one("sonic-tc-queue-map", "TC_TO_QUEUE_MAP", "name", inner=("tc", "qindex")),
    "QUEUE": _one("sonic-queue", "QUEUE", "ifname", "qindex"),
    "PORT_QOS_MAP": _one("sonic-port-qos-map", "PORT_QOS_MAP", "ifname"),
    "DEVICE_NEIGHBOR": _one("sonic-device_neighbor", "DEVICE_NEIGHBOR", "peer_name"),
    "DEVICE_NEIGHBOR_METADATA": _one("sonic-device_neighbor_metadata", "DEVICE_NEIGHBOR_METADATA", "name"),
}

Tables = Mapping[str, Mapping[str, Mapping[str, Any]]]


def with_ports(tables: Tables) -> Tables:
    """Return tables with a row of ``PORT`` for each port that they name, as the switch has them."""
    names = {key.split("|")[0] for table in ("INTERFACE", "QUEUE", "PORT_QOS_MAP") for key in tables.get(table, {})}
    names |= {port for row in tables.get("ACL_TABLE", {}).values() for port in row["ports"]} | {*tables.get("PORT", {})}
    known = tables.get("PORT", {})
    return {**tables, "PORT": {name: {"lanes": "1", "speed": "100000", **known.get(name, {})} for name in names}}


def complaint(tables: Tables, models: Path, folder: Path) -> str:
    """Return what yanglint has against tables; empty: nothing.

    Args:
        tables: of CONFIG_DB, of those in ``TABLES``.
        models: the folder of the models.
        folder: for the data.
    """
    data = folder / "data.xml"
    modules = sorted({TABLES[name].module for name in tables})
    data.write_text("".join(_xml(each, tables) for each in modules))
    command = ["yanglint", "-p", str(models), "-t", "config", *(f"{models}/{name}.yang" for name in modules), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return (done.stderr or done.stdout).strip() or f"yanglint has ended with {done.returncode}"


def _xml(module: str, tables: Tables) -> str:
    """Return the tables of a module, which is there once."""
    made = {
        name: "".join(_row(name, TABLES[name], key.split("|"), row) for key, row in rows.items())
        for name, rows in tables.items()
        if TABLES[name].module == module
    }
    content = "".join(f"<{name}>{rows}</{name}>" for name, rows in made.items())
    return f'<{module} xmlns="http://github.com/sonic-net/{module}">{content}</{module}>\n'


def _row(table: str, lists: _Lists, key: list[str], row: Mapping[str, Any]) -> str:
    (name,) = (name for name, keys in lists.keys.items() if len(keys) == len(key))
    leaves = dict(zip(lists.keys[name], key, strict=True))
    if lists.inner:
        inner = (_leaf(table, dict(zip(lists.inner, each, strict=True))) for each in row.items())
        return f"<{name}>{_leaves(leaves)}{''.join(inner)}</{name}>"
    return f"<{name}>{_leaves({**leaves, **row})}</{name}>"


def _leaf(name: str, leaves: Mapping[str, Any]) -> str:
    return f"<{name}>{_leaves(leaves)}</{name}>"


def _leaves(leaves: Mapping[str, Any]) -> str:
    """Return leaves as XML; a list of values is a leaf-list."""
    each = ((name, one) for name, value in leaves.items() for one in (value if isinstance(value, list) else [value]))
    return "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in each)
