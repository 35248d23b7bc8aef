"""Probes on Linux routers that answer as they should not: what cannot be known is told, and no port is guessed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from tests.rig.programs import FAIRSPINE
from tests.rig.routers.answering_routers import addressed
from tests.rig.routers.probed_routers import answers, unlimited
from tests.rig.routers.router_lab import RouterLab
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

FABRIC = addressed(clos(4, 3, 1))
ODD = "spine4"
STRANGER = "10.9.9.9"
"""An address that the file does not have."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RouterLab]:
    with RouterLab(FABRIC, tmp_path_factory.mktemp("lab")) as made:
        unlimited(made)
        eventually(lambda: answers(made, "h1", "h2"), "hosts reach each other")
        yield made


def probed(
    lab: RouterLab, folder: Path, *options: str, fabric: Fabric = FABRIC, ports: int = 1
) -> tuple[int, dict[str, Any]]:
    """Probe all paths from h1 to h2, by a file of this fabric; return the exit code, and what is told."""
    (folder / "fabric.yaml").write_text(yaml.safe_dump(fabric_document(fabric)))
    out = folder / "probes"
    export = ["export", "port-probes", "--fabric", str(folder / "fabric.yaml"), "--out", str(out)]
    subprocess.run([FAIRSPINE, *export, "--burst", "50", "--rate", "10000", *options], check=True)
    task = json.loads((out / "h1.json").read_text())
    task["pairs"] = [pair for pair in task["pairs"] if pair["dst"] == fabric.hosts[fabric.host_index["h2"]].ip]
    for row in task["pairs"][0]["wanted"]:
        row["ports"] = ports
    (out / "h1.json").write_text(json.dumps(task))
    command = [FAIRSPINE, "probe-ports", str(out / "h1.json"), "--format", "json", "--seconds", "60"]
    done = subprocess.run(lab.inside("h1", *command), capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    (pair,) = json.loads(done.stdout)["pairs"]
    return done.returncode, pair


def learned(lab: RouterLab, pair: dict[str, Any], fabric: Fabric = FABRIC) -> set[int]:
    """The paths that have ports, all of which lead over their paths, as the kernels of the routers say."""
    ports = {row["port"]: row["path"] for row in pair["ports"]}
    taken = lab.lab.routed([("h1", "h2", port) for port in ports])
    for port, path in ports.items():
        planned = fabric.flow_links(fabric.host_index["h1"], fabric.host_index["h2"], path)
        ids = [fabric.link_ids[link] for link in planned]
        assert [FABRIC.link_ids[link] for link in taken["h1", "h2", port]] == ids
    return set(ports.values())


def path_by(spine: str, fabric: Fabric = FABRIC) -> int:
    return next(
        path
        for path in fabric.live_paths(0, 1).tolist()
        if any(spine in fabric.link_ids[link] for link in fabric.flow_links(0, 1, path))
    )


@contextmanager
def filtered(lab: RouterLab, router: str, hook: str, rule: str) -> Iterator[None]:
    """Have a router treat packets by a rule of nftables."""
    for line in (
        "add table ip odd",
        f"add chain ip odd packets {{ type filter hook {hook} priority 0 ; }}",
        f"add rule ip odd packets {rule}",
    ):
        lab.run(router, "nft", line)
    try:
        yield
    finally:
        lab.run(router, "nft", "delete table ip odd")


@contextmanager
def never_answering(lab: RouterLab) -> Iterator[None]:
    """Have a router drop what it would answer."""
    with filtered(lab, ODD, "output", "ip protocol icmp drop"):
        yield


@contextmanager
def limited_to_nothing(lab: RouterLab) -> Iterator[None]:
    """Have a router answer once in an hour."""
    lab.run(ODD, "sysctl", "-qw", "net.ipv4.icmp_ratelimit=3600000", "net.ipv4.icmp_msgs_per_sec=0")
    try:
        yield
    finally:
        unlimited(lab)


@pytest.mark.parametrize("odd", [never_answering, limited_to_nothing])
def test_a_router_that_does_not_answer_gets_no_port_and_others_keep_theirs(
    lab: RouterLab, tmp_path: Path, odd: Callable[[RouterLab], Any]
) -> None:
    with odd(lab):
        code, pair = probed(lab, tmp_path)
        # A few answers may come before the limit.
        paths = learned(lab, pair)
        assert pair["probes"]["unanswered"]
        assert paths <= {*range(4)}
        lacking = {*range(4)} - paths
        assert (code, pair["state"] == "complete") == ((1, False) if lacking else (0, True))
        if odd is never_answering:
            assert path_by(ODD) in lacking
            assert pair["state"] in ("silent", "unreachable")


def test_a_router_that_answers_from_another_address_is_named_and_gets_no_port(lab: RouterLab, tmp_path: Path) -> None:
    (address,) = FABRIC.layers[1][3].addresses
    where = lab.run(ODD, "ip", "-o", "-4", "address", "show", "to", address).split()[1]
    lab.run(ODD, "ip", "address", "add", f"{STRANGER}/32", "dev", where)
    lab.run(ODD, "ip", "address", "del", f"{address}/32", "dev", where)
    try:
        code, pair = probed(lab, tmp_path)
        assert code == 1
        assert learned(lab, pair) == {*range(4)} - {path_by(ODD)}
        assert {each["answers"][-1] for each in pair["strange"]} == {STRANGER}
    finally:
        lab.run(ODD, "ip", "address", "add", f"{address}/32", "dev", where)
        lab.run(ODD, "ip", "address", "del", f"{STRANGER}/32", "dev", where)


def test_a_leaf_that_rewrites_source_addresses_leaves_no_port_known(lab: RouterLab, tmp_path: Path) -> None:
    rule = f"ip saddr {FABRIC.hosts[0].ip} udp dport 4791 ip saddr set {STRANGER}"
    with filtered(lab, "leaf1", "postrouting", rule):
        code, pair = probed(lab, tmp_path)
    assert (code, pair["state"], pair["ports"]) == (1, "silent", [])


def test_a_spine_that_the_file_lacks_is_named_and_its_ports_are_not_used(lab: RouterLab, tmp_path: Path) -> None:
    three = addressed(clos(3, 3, 1))
    assert [host.ip for host in three.hosts] == [host.ip for host in FABRIC.hosts]
    # So many that one of four answers at random is the odd one, but for once in 30,000 runs.
    code, pair = probed(lab, tmp_path, fabric=three, ports=12)
    assert (code, pair["state"]) == (0, "complete")
    assert learned(lab, pair, three) == {0, 1, 2}
    assert {each["answers"][-1] for each in pair["strange"]} == {*FABRIC.layers[1][3].addresses}


def test_a_path_that_is_longer_than_the_file_says_is_told_by_its_last_probe(lab: RouterLab, tmp_path: Path) -> None:
    others = {*range(4)} - {path_by(ODD)}
    code, pair = probed(lab, tmp_path, "--last-leaf")
    assert (code, learned(lab, pair), pair["strange"]) == (0, {*range(4)}, [])
    routes = {line.split()[0]: line.split()[1:] for line in lab.run(ODD, "ip", "-4", "route").splitlines()}
    prefix, detour = (
        next(each for each in routes if "/" in each and IPv4Address(host.ip) in IPv4Network(each))
        for host in FABRIC.hosts[1:]
    )
    lab.run(ODD, "ip", "route", "replace", prefix, *routes[detour])
    try:
        code, pair = probed(lab, tmp_path, "--last-leaf")
    finally:
        lab.run(ODD, "ip", "route", "replace", prefix, *routes[prefix])
    assert code == 1
    assert learned(lab, pair) == others
    assert pair["unreachable"] == [path_by(ODD)]
    # By way of the third leaf.
    assert {each["answers"][-1] for each in pair["strange"]} == {"leaf3"}
