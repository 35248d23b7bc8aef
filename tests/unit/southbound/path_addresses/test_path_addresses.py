"""Addresses of hosts for paths: BGP leads each over its path, and over others when that is gone."""

from __future__ import annotations

import itertools
import json
import re
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.files.pod_clos import pod_clos
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.southbound.path_addresses.bgp_tags import with_path_addresses
from controller.southbound.path_addresses.files import router_texts
from controller.southbound.path_addresses.path_addresses import DEFAULT_BLOCK, PathAddresses
from controller.southbound.srv6.bgp_configuration import BgpConfiguration
from controller.southbound.srv6.segment_ids import SegmentIds
from tests.unit.southbound.bgp.bgp_routes import Routes, bgp_routes, far_end, port_name, speakers
from tests.unit.southbound.plans import patchy_fabrics, patient
from tests.unit.strategies import plane_fabrics, pod_fabrics, with_routers

FABRICS = (
    st.one_of(patchy_fabrics(), pod_fabrics(max_parallel=1), plane_fabrics())
    .filter(lambda fabric: bool(fabric.cables) and not fabric.cable_number.any() and not fabric.planes.bonds)
    .map(lambda fabric: fabric.healthy())
)
SMALL = with_routers(clos(2, 2, 1))
BY_ADDRESS = [name for name, each in ENFORCEMENTS.items() if each.needs_routers and not each.by_hosts]


def addresses_of(fabric: Fabric, block: str = "10.64.0.0/10") -> PathAddresses:
    return PathAddresses.of(fabric, block, "--block")


def routers(addresses: PathAddresses) -> dict[str, BgpConfiguration]:
    ids = SegmentIds.of(addresses.fabric)
    made = with_path_addresses(list(speakers(ids).values()), addresses, port_name)
    return {each.name: each for each in made}


def routes(addresses: PathAddresses, down: set[int]) -> Routes:
    return bgp_routes(SegmentIds.of(addresses.fabric), down, routers(addresses))


def pairs(fabric: Fabric) -> list[tuple[int, int]]:
    return list(itertools.permutations(range(fabric.n_leaves), 2))


@patient
@given(data=st.data())
def test_packets_to_each_address_take_its_path_and_no_other(data: st.DataObject) -> None:
    fabric = data.draw(FABRICS)
    addresses = addresses_of(fabric)
    every = routes(addresses, set())
    for a, b in pairs(fabric):
        hosts = [host for host, leaf in enumerate(fabric.host_leaf.tolist()) if leaf == b]
        for path in fabric.ways.between(a, b).tolist():
            at = fabric.leaves[a].name
            for link in fabric.ways.links_of(a, b, path):
                for host in hosts[:1]:
                    to = addresses.to_host(host, path)
                    (network,) = (prefix for prefix in every[at] if isinstance(prefix, IPv4Network) and to in prefix)
                    assert every[at][network].links == {link}
                at = far_end(fabric, link)


@patient
@given(data=st.data())
def test_with_a_dead_cable_packets_to_each_address_still_arrive_where_any_path_is_left(data: st.DataObject) -> None:
    fabric = data.draw(FABRICS)
    addresses, down = addresses_of(fabric), {data.draw(st.integers(0, len(fabric.cables) - 1))}
    every = routes(addresses, down)
    now = fabric.without_links([fabric.cable_names[cable] for cable in down])
    for a, b in pairs(fabric):
        left = {fabric.ways.links_of(a, b, path) for path in now.live_paths(a, b).tolist()}
        for number in addresses.classes(b):
            going: list[tuple[str, tuple[int, ...]]] = [(fabric.leaves[a].name, ())]
            arrived: set[tuple[int, ...]] = set()
            while going:
                at, links = going.pop()
                if at == fabric.leaves[b].name:
                    arrived.add(links)
                    continue
                route = every[at].get(addresses.of_leaf(b, number))
                assert route is not None or not left
                going += [(far_end(fabric, link), (*links, link)) for link in route.links] if route else []
            assert arrived <= left
            assert bool(arrived) == bool(left)


@patient
@given(data=st.data())
def test_no_two_hosts_or_classes_have_an_address_in_common_and_all_are_in_the_block(data: st.DataObject) -> None:
    fabric = data.draw(FABRICS)
    addresses = addresses_of(fabric)
    addresses.check()
    every = [
        addresses.of_host(host, number)
        for host, leaf in enumerate(fabric.host_leaf.tolist())
        for number in addresses.classes(leaf)
    ]
    assert len(set(every)) == len(every)
    assert all(each in addresses.block for each in every)
    for host, leaf in enumerate(fabric.host_leaf.tolist()):
        for number in addresses.classes(leaf):
            network = addresses.of_leaf(leaf, number)
            assert addresses.of_host(host, number) in set(network.hosts())


@pytest.mark.parametrize("fabric", [clos(3, 2, 2), pod_clos(2, 2, 2, 2, 1)], ids=["two layers", "three layers"])
def test_the_text_for_frr_has_each_tag_and_prefers_the_choice_of_each_uplink(fabric: Fabric) -> None:
    addresses = addresses_of(fabric)
    made = routers(addresses)
    for name, text in router_texts(addresses, port_name):
        lines = [line.strip() for line in text.splitlines()]
        for tagged in made[name].tagged:
            assert lines.count(f"network {tagged.network} route-map TAG-{'-'.join(map(str, tagged.choices))}") == 1
        for each in made[name].neighbors:
            assert lines.count(f"neighbor {each.interface} route-map UP-{each.interface} out") == bool(each.choice)
        assert "ipv6 unicast" not in text
        names = set(re.findall(r"^route-map (\S+) permit 10$", text, re.MULTILINE))
        assert set(re.findall(r" route-map (\S+)(?: out)?$", text, re.MULTILINE)) == names
        leaf = next((n for n, switch in enumerate(fabric.leaves) if switch.name == name), None)
        own = [] if leaf is None else [n for n, each in enumerate(fabric.host_leaf.tolist()) if each == leaf]
        asked = {
            f"ip route {addresses.of_host(n, c)}/32 {fabric.hosts[n].ip}"
            for n in own
            for c in addresses.classes(leaf or 0)
        }
        assert {line for line in lines if line.startswith("ip route ")} == asked


def test_files_are_written_for_routers_and_hosts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "fabric.json"
    file.write_text(json.dumps(fabric_document(with_routers(clos(2, 2, 1)))))
    with pytest.raises(SystemExit) as end:
        main(["export", "path-addresses", "--fabric", str(file), "--out", str(tmp_path / "out")])
    assert (end.value.code or 0, *capsys.readouterr()) == (0, "", "")
    names = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert names == ["h1.sh", "h2.sh", "leaf1.conf", "leaf2.conf", "spine1.conf", "spine2.conf"]
    assert (tmp_path / "out" / "h2.sh").read_text().count("ip address replace 10.") == 2


@pytest.mark.parametrize(
    ("fabric", "options", "message"),
    [
        (clos(2, 2, 1), {}, "switches: 'leaf1': speaks OpenFlow, and this enforcement needs routers that speak BGP"),
        (with_routers(clos(2, 2, 1, parallel=2)), {}, "links: 'leaf1-spine1:1': is parallel to another cable"),
        (with_routers(clos(4, 2, 1, planes=2, bond=True)), {}, "hosts: ports that share an address"),
        (
            with_routers(clos(2, 2, 1)),
            {"path_address_block": "leaf"},
            "path_address_block: 'leaf': is not an IPv4 prefix",
        ),
        (
            with_routers(clos(2, 2, 1)),
            {"path_address_block": "fd00::/48"},
            "path_address_block: 'fd00::/48': is not an IPv4",
        ),
        (SMALL, {"path_address_block": "10.64.0.0/30"}, "has 2 bits for hosts, and 4 are needed"),
        (SMALL, {"path_address_block": "10.0.0.0/8"}, "overlaps 10.0.1.0/24 of the fabric"),
    ],
)
@pytest.mark.parametrize("enforcement", BY_ADDRESS)
def test_fabrics_and_blocks_that_it_cannot_use_are_refused_in_one_line(
    enforcement: str, fabric: Fabric, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        ENFORCEMENTS[enforcement].check(fabric, options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("enforcement", BY_ADDRESS)
def test_the_address_of_a_piece_is_that_of_its_path_in_the_block_of_the_option(enforcement: str) -> None:
    fabric, chosen = with_routers(clos(3, 2, 2)), ENFORCEMENTS[enforcement]
    for block in (DEFAULT_BLOCK, "10.80.0.0/16"):
        options = {} if block == DEFAULT_BLOCK else dict.fromkeys(chosen.options, block)
        made = [chosen.destination(fabric, 2, path, options) for path in range(3)]
        assert made == [str(addresses_of(fabric, block).to_host(2, path)) for path in range(3)]
