"""Bonds: ports of a NIC in several planes that share one IP and one MAC address."""

from __future__ import annotations

import copy
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, parse_fabric
from controller.model.files.pod_clos import pod_clos
from controller.model.texts.zones import plain, zoned_addresses
from tests.unit.strategies import nic_fabrics

SHORT = {"spines": 2, "leaves": 2, "hosts_per_leaf": 2}
PODS: dict[str, Any] = {"pods": 2, "leaves": 2, "aggs": 2, "cores_per_agg": 1, "hosts_per_leaf": 1}


def two_planes() -> Any:
    """The explicit form of bonds in two planes."""
    return copy.deepcopy(fabric_document(clos(2, 2, 2, planes=2, bond=True)))


def test_the_ports_of_a_nic_have_the_addresses_of_its_port_in_the_first_plane() -> None:
    short = parse_fabric({"clos": {**SHORT, "planes": 3, "bond": True}})
    one = clos(2, 2, 2)
    for planes, alone in ((short, one), (pod_clos(**PODS, planes=2, bond=True), pod_clos(**PODS))):
        assert [(h.ip, h.mac) for h in planes.hosts] == [(h.ip, h.mac) for h in alone.hosts] * planes.planes.count
        assert planes.planes.bonds
        assert not alone.planes.bonds
    assert parse_fabric({"three_tier": {**PODS, "planes": 2, "bond": True}}) == pod_clos(**PODS, planes=2, bond=True)
    assert fabric_document(short)["hosts"][0]["ip"] == fabric_document(short)["hosts"][4]["ip"]


@given(nic_fabrics())
def test_an_address_with_its_zone_is_that_of_one_port_and_belongs_to_one_nic(fabric: Fabric) -> None:
    zoned = zoned_addresses(fabric)
    assert len(set(zoned)) == fabric.n_hosts
    assert [plain(ip) for ip in zoned] == [host.ip for host in fabric.hosts]
    assert fabric.planes.bonds or zoned == [host.ip for host in fabric.hosts]
    first: dict[str, int] = {}
    for i, host in enumerate(fabric.hosts):
        assert fabric.planes.address[i] == first.setdefault(host.ip, i)
        assert fabric.hosts[first[host.ip]].nic == host.nic


@given(nic_fabrics())
def test_in_each_network_the_prefixes_of_one_leaf_and_of_one_pod_have_an_address(fabric: Fabric) -> None:
    network, pod = fabric.planes.network[0], fabric.pod_of_leaf
    for host, leaf in zip(fabric.hosts, fabric.host_leaf.tolist(), strict=True):
        own = [a for a in range(fabric.n_leaves) if network[a] == network[leaf]]
        address = IPv4Address(host.ip)
        assert [a for a in own if any(address in net for net in fabric.leaf_prefixes[a])] == [leaf]
        if len(fabric.layers) == 3:
            pods = {int(pod[a]) for a in own}
            assert [p for p in pods if any(address in net for net in fabric.pod_prefixes[p])] == [pod[leaf]]


def test_a_port_of_a_bond_takes_the_mac_address_that_an_earlier_one_states() -> None:
    document = two_planes()
    for row in document["hosts"][4:]:
        del row["mac"]
    assert parse_fabric(document) == clos(2, 2, 2, planes=2, bond=True)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {4: {"mac": "02:00:00:00:09:09"}},
            "hosts[4].mac: '02:00:00:00:09:09': h1.p1 and h1.p2 have the same ip, so they need the same mac: "
            "ports of a bond share both",
        ),
        (
            {4: {"ip": "10.0.9.9"}},
            "hosts[4].ip: '10.0.9.9': h1.p1 and h1.p2 have the same mac, so they need the same ip: "
            "ports of a bond share both",
        ),
        ({5: {"ip": "10.0.1.1"}}, "hosts[5].ip: '10.0.1.1': h1.p1 and h2.p2 have the same ip"),
        ({5: {"mac": "02:00:00:00:01:01"}}, "hosts[5].mac: '02:00:00:00:01:01': h1.p1 and h2.p2 have the same mac"),
    ],
)
def test_addresses_that_are_no_bond_s_are_refused(changes: dict[int, dict[str, str]], text: str) -> None:
    document = two_planes()
    for row, change in changes.items():
        document["hosts"][row].update(change)
    with pytest.raises(InputError) as error:
        parse_fabric(document)
    assert str(error.value) == text


def test_two_ports_of_one_network_cannot_share_an_address() -> None:
    document = two_planes()
    document["links"].append({"a": "leaf1", "b": "spine3"})
    with pytest.raises(InputError) as error:
        parse_fabric(document)
    assert str(error.value) == (
        "hosts[4].ip: '10.0.1.1': h1.p1 and h1.p2 of NIC h1 are in one network and have the same ip: bonds need ports "
        "in unlike networks (planes), and dual-ToR needs an ip and a mac of each port"
    )


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            {"clos": {**SHORT, "bond": True}},
            "clos.bond: True: a bond has one port in each network, so it needs several planes",
        ),
        (
            {"clos": {**SHORT, "planes": 2, "dual_tor": True, "bond": True}},
            "clos.bond: True: a bond has one port in each network, so it is not supported with 'dual_tor'",
        ),
    ],
)
def test_a_bond_of_the_short_form_needs_planes_and_one_port_in_each(form: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        parse_fabric(form)
    assert str(error.value) == text
