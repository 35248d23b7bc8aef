"""Optical fabrics are read from files; what is wrong in one is named in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.circuits.demand import shards_of
from controller.circuits.fabric.optical_fabric import Circuit
from controller.circuits.fabric.optical_file import load_optical_fabric, parse_optical_fabric
from controller.model.errors import InputError
from controller.model.files.fabric_file import load_fabric, parse_fabric
from controller.workload.job_file import parse_job
from tests.unit.circuits.drawn import optical

EXAMPLE = Path(__file__).parents[3] / "examples" / "optical" / "sixteen.yaml"


def panel(name: str, nic: int, servers: list[str]) -> dict[str, Any]:
    return {"name": name, "ports": [{"port": i + 1, "server": s, "nic": nic} for i, s in enumerate(servers)]}


NAMES = ["a", "b", "c"]
TWO = {"servers": NAMES, "nics": 2, "switches": [panel("x", 0, NAMES), panel("y", 1, NAMES)]}


def test_the_short_form_numbers_ports_by_server_and_nic() -> None:
    by_nic, one = optical(servers=4, nics=3), optical(servers=4, nics=3, switches="one")
    assert by_nic.circuit((0, 2), (3, 2)) == Circuit("ocs3", 1, 4)
    assert one.circuit((0, 2), (3, 1)) == Circuit("ocs1", 9, 8)
    assert load_optical_fabric(EXAMPLE).servers[-1] == "h16"


def test_the_explicit_form_says_which_nic_is_at_which_port() -> None:
    fabric = optical(
        **TWO, circuits=[{"switch": "y", "in_port": 3, "out_port": 1}], dead_ports=[{"switch": "x", "port": 2}]
    )
    assert fabric.circuits == (Circuit("y", 3, 1),)
    assert fabric.dead.tolist() == [[False, False], [True, False], [False, False]]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"servers": 4, "nics": 4}, r"optical.nics: 4: 4 servers need no more than 3 NICs each"),
    ({"servers": 5, "nics": 2, "duplex": True}, r"optical.servers: 5: an odd number of servers cannot be paired"),
    ({"servers": 5, "nics": 1, "duplex": True, "switches": "one"}, r"optical.servers: 5: an odd number of servers"),
    ({"servers": 1, "nics": 1}, r"optical.servers: 1: "),
    ({"servers": "many", "nics": 1}, r"optical.servers: 'many': must be a number of servers, or a list"),
    ({"servers": ["a", "a"], "nics": 1}, r"optical.servers\[1\]: 'a': a server before has this name"),
    ({"servers": 4, "nics": 0}, r"optical.nics: 0: "),
    ({"servers": 4, "nics": 1, "gbps": -1}, r"optical.gbps: -1: "),
    ({"servers": 4, "nics": 1, "switches": "two"}, r"optical.switches: 'two': must be per_nic, one, or a list"),
    ({"servers": 4, "nics": 1, "colour": 1}, r"optical.colour: 1: unknown key"),
    ({"servers": 4, "nics": 1, "duplex": "no"}, r"optical.duplex: 'no': "),
    ({"servers": 4, "nics": 1, "reconfigure_seconds": -3}, r"optical.reconfigure_seconds: -3: "),
    (
        {"servers": 4, "nics": 1, "dead_ports": [{"switch": "ocs1", "port": 5}]},
        r"dead_ports\[0\].port: 5: no server is at",
    ),
    (
        {"servers": 4, "nics": 1, "dead_ports": [{"switch": "z", "port": 5}]},
        r"dead_ports\[0\].switch: 'z': no optical switch",
    ),
    (
        TWO | {"circuits": [{"switch": "x", "in_port": 1, "out_port": 9}]},
        r"circuits\[0\].out_port: 9: no server is at this",
    ),
    (
        TWO | {"circuits": [{"switch": "x", "in_port": 1, "out_port": out} for out in (2, 3)]},
        r"circuits\[1\].in_port: 1: circuits\[0\] already uses this port",
    ),
    (
        TWO | {"circuits": [{"switch": "x", "in_port": 1, "out_port": 1}]},
        r"circuits\[0\].out_port: 1: both ends are of a",
    ),
    (
        TWO | {"circuits": [{"switch": "x", "in_port": 1, "out_port": 2}], "dead_ports": [{"switch": "x", "port": 2}]},
        r"circuits\[0\].out_port: 2: is one of dead_ports",
    ),
    (
        {"servers": 4, "nics": 1, "duplex": True, "circuits": [{"switch": "ocs1", "in_port": 1, "out_port": 2}]},
        r"circuits\[0\].in_port: 1: circuits are duplex",
    ),
    (
        TWO | {"switches": [panel("x", 0, NAMES), panel("y", 1, NAMES[:2])]},
        r"optical.switches: NIC 1 of c is at no port",
    ),
    (
        TWO | {"switches": [panel("x", 0, [*NAMES, "z"])]},
        r"switches\[0\].ports\[3\].server: 'z': no server has this name",
    ),
    (TWO | {"switches": [panel("x", 2, NAMES)]}, r"switches\[0\].ports\[0\].nic: 2: servers have NICs 0 to 1"),
    (
        TWO | {"switches": [panel("x", 0, NAMES[:2]), panel("y", 0, NAMES[2:])]},
        r"switches\[1\].ports\[0\].server: 'c': NIC 0 of other servers is on x",
    ),
    (
        TWO | {"switches": [panel("x", 0, NAMES), panel("x", 1, NAMES)]},
        r"switches\[1\].name: 'x': a switch before has this",
    ),
    (
        TWO | {"switches": [{"name": "x", "ports": [{"port": 1, "server": s, "nic": 0} for s in "ab"]}]},
        r"switches\[0\].ports\[1\].port: 1: a port before has this number",
    ),
    (
        TWO | {"switches": [panel("x", 0, ["a", "a"])]},
        r"switches\[0\].ports\[1\].nic: 0: NIC 0 of a is already at a port",
    ),
]


@pytest.mark.parametrize(("fields", "reason"), BAD)
def test_what_is_wrong_is_named_with_its_field_and_value(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        parse_optical_fabric({"optical": fields}, source="f.yaml")
    assert str(error.value).startswith("f.yaml: optical.")


def test_packet_fabrics_and_optical_ones_are_not_mistaken_for_each_other() -> None:
    with pytest.raises(InputError, match=r"sixteen.yaml: optical: is a fabric of optical circuits"):
        load_fabric(EXAMPLE)
    with pytest.raises(InputError, match="has no 'optical'"):
        parse_optical_fabric({"clos": {"leaves": 1, "spines": 1, "hosts_per_leaf": 1}})
    with pytest.raises(InputError, match="optical"):
        parse_fabric({"clos": {"leaves": 1, "spines": 1, "hosts_per_leaf": 1}, "optical": {}})


JOBS: list[tuple[list[dict[str, Any]], str]] = [
    ([{"name": "a", "hosts": ["h9"]}], r"j0: hosts\[0\]: 'h9': no server of the fabric has this name"),
    ([{"name": "a", "hosts": ["h1"]}] * 2, r"j1: name: 'a': a previous job has this name"),
    (
        [{"name": "a", "hosts": ["h1", "h2"]}, {"name": "b", "hosts": ["rank0", "rank1", "rank2"]}],
        r"j1: hosts: the job has 3 ranks without a server, and 2 servers are free",
    ),
    (
        [
            {"name": "a", "hosts": ["h1", "h2"]},
            {"name": "b", "hosts": ["h3"], "flows": [{"src": "h3", "dst": "h1", "bytes": 1}]},
        ],
        r"j1: flows\[0\].dst: 'h1': is a server of the job a; circuits do not join jobs",
    ),
    ([{"name": "a"}], "j0: has no hosts and no flows"),
]


@pytest.mark.parametrize(("documents", "reason"), JOBS)
def test_jobs_that_do_not_fit_are_refused(documents: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        shards_of(optical(servers=4, nics=1), [(f"j{i}", parse_job(each)) for i, each in enumerate(documents)])


@pytest.mark.parametrize("form", ["clos", "three_tier", "switches"])
def test_packet_switches_beside_circuits_are_refused(form: str) -> None:
    with pytest.raises(InputError, match=rf"^{form}: packet switches beside circuits \(hybrid fabrics\) are not"):
        parse_optical_fabric({"optical": {"servers": 4, "nics": 1}, form: {"spines": 2}})
