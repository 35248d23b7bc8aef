"""Neighbours by LLDP, and SONiC's databases, become fabrics with each cable once."""

from __future__ import annotations

import json

import pytest

from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.guess import guess
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import text_source
from tests.unit.workload.importers.fabrics.reading import (
    EXAMPLES,
    fabric,
    read,
)


def _sonic(name: str) -> dict[str, dict[str, dict[str, str]]]:
    document: dict[str, dict[str, dict[str, str]]] = json.loads((EXAMPLES / "sonic" / f"{name}.json").read_text())
    return document


def _lldp(*documents: object) -> Imported:
    sources = [text_source(f"{i}.json", json.dumps(document)) for i, document in enumerate(documents)]
    return importer("lldp")(sources, ImportRequest())


def test_a_dump_of_sonics_database_and_its_older_neighbours_are_the_same_fabric() -> None:
    leaves = [_sonic("leaf1"), _sonic("leaf2")]
    expected = fabric(_lldp(*leaves)).version
    dumps = [
        {f"{table}|{key}": {"type": "hash", "value": row} for table, rows in leaf.items() for key, row in rows.items()}
        for leaf in leaves
    ]
    assert fabric(_lldp(*dumps)).version == expected
    assert [row.format for row in guess([text_source("a", json.dumps(dumps[0]))])] == ["lldp"]
    older = [
        {
            **leaf,
            "DEVICE_NEIGHBOR_METADATA": {},
            "DEVICE_NEIGHBOR": {
                row["name"]: {
                    "local_port": port,
                    "port": row["port"],
                    "type": leaf["DEVICE_NEIGHBOR_METADATA"][row["name"]]["type"],
                }
                for port, row in leaf["DEVICE_NEIGHBOR"].items()
            },
        }
        for leaf in leaves
    ]
    assert fabric(_lldp(*older)).version == expected


def test_a_neighbour_without_a_description_is_a_switch_by_its_port_or_a_warning() -> None:
    leaves = [{**_sonic(name), "DEVICE_NEIGHBOR_METADATA": {}} for name in ("leaf1", "leaf2")]
    found = _lldp(*leaves)
    assert {spine.name for spine in fabric(found).spines} == {"spine1"}
    assert found.warnings[0].startswith("the kind of 4 neighbours is unknown, gpu1, gpu2, gpu3 ..: they are assumed")
    assert _lldp(_sonic("leaf1"), _sonic("leaf2")).warnings == ()


LEAF = [("swp1", "gpu{n}", "52:54:00:00:00:0{n}", "Ubuntu 22.04"), ("swp49", "spine1", "swp{n}", "Cumulus Linux 5.6")]


SERVER = [("eth0", "leaf{n}", "swp1", "Cumulus Linux 5.6")]


def lldp(rows: list[tuple[str, str, str, str]], n: int, form: str) -> str:
    """Neighbours of the ``n``-th node as ``lldpcli`` writes them in this form."""
    found: list[dict[str, object]] = []
    for port, peer, there, system in ([text.format(n=n) for text in row] for row in rows):
        identity = {"type": "mac", "value": f"id of {peer}"}
        if form == "json0":
            chassis = {"id": [identity], "name": [{"value": peer}], "descr": [{"value": system}]}
            found.append({"name": port, "chassis": [chassis], "port": [{"id": [{"type": "x", "value": there}]}]})
        else:
            about = {"id": identity, "descr": system}
            one = {peer: about} if form == "json" else about
            found.append({port: {"chassis": one, "port": {"id": {"type": "x", "value": there}}}})
    whole = {"interface": found}
    return json.dumps({"lldp": [whole] if form == "json0" else whole})


@pytest.mark.parametrize("form", ["json", "json0", "json without names"])
def test_both_of_lldpclis_json_forms_are_read(form: str) -> None:
    one = fabric(read("lldp", *(lldp(LEAF, n, form) for n in (1, 2)), names=("leaf1.json", "leaf2.json")))
    assert (one.n_leaves, one.n_spines, one.n_hosts, len(one.cables)) == (2, 1, 2, 2)


def test_a_cable_counts_once_whose_ends_are_called_differently() -> None:
    """A server names its port by its interface, and tells the switch the port's MAC address."""
    texts = [lldp(LEAF, 1, "json"), lldp(LEAF, 2, "json"), lldp(SERVER, 1, "json"), lldp(SERVER, 2, "json")]
    names = ("leaf1.json", "leaf2.json", "gpu1.json", "gpu2.json")
    for order in ([0, 1, 2, 3], [2, 3, 0, 1], [0, 2, 1, 3]):
        one = fabric(read("lldp", *(texts[i] for i in order), names=tuple(names[i] for i in order)))
        assert (one.n_hosts, len(one.cables)) == (2, 2)
