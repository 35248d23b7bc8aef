"""Hosts with IPv6 addresses: how files name them, by which prefixes they are reached, and what refuses them."""

from __future__ import annotations

import dataclasses
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document, parse_fabric, yaml_of
from controller.views.learned import address_finder, host_finder
from controller.workload.expand import expand
from controller.workload.job_file import parse_job
from tests.unit.laws import examples
from tests.unit.strategies import fabrics, plane_fabrics, with_ipv6, with_routers

SMALL = clos(2, 2, 2)


def _is_of_one_host(address: IPv6Address) -> bool:
    local = address.is_link_local or address.is_loopback or address.is_unspecified
    return not (local or address.is_multicast or address.ipv4_mapped)


single_hosts = st.integers(0, 2**128 - 1).map(IPv6Address).filter(_is_of_one_host)


def with_ip(ip: Any) -> dict[str, Any]:
    document = fabric_document(SMALL)
    document["hosts"][1]["ip"] = ip
    return document


@given(address=single_hosts, spelling=st.sampled_from(["compressed", "exploded"]))
def test_an_address_has_one_spelling_and_reads_back_equal(address: IPv6Address, spelling: str) -> None:
    fabric = parse_fabric(with_ip(getattr(address, spelling).upper()))
    assert (fabric.hosts[1].ip, fabric.hosts[1].ip_version) == (str(address), 6)
    assert fabric.ipv6_hosts.tolist() == [1]
    again = parse_fabric(fabric_document(fabric))
    assert (again, again.version) == (fabric, fabric.version)


@pytest.mark.parametrize("ip", ["fe80::1", "fe80::1%eth0", "::1", "::", "ff02::1", "::ffff:10.0.0.1", "fd00::g", "1:2"])
def test_an_address_that_is_not_of_one_host_in_the_fabric_is_refused_in_one_line(ip: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_fabric(with_ip(ip))
    assert (refused.value.field, refused.value.value) == ("hosts[1].ip", ip)


def test_one_address_in_two_spellings_is_one_address() -> None:
    document = with_ip("fd00:0:0::1")
    document["hosts"][2]["ip"] = "FD00::0:1"
    with pytest.raises(InputError, match="h2 and h3 have the same ip"):
        parse_fabric(document)


def drawn(data: st.DataObject) -> Fabric:
    fabric = data.draw(st.one_of(fabrics(), plane_fabrics().filter(lambda each: not each.planes.bonds)))
    names = data.draw(st.sets(st.sampled_from(fabric.host_names)))
    fabric = with_ipv6(fabric, names)
    # Some leaves have a subnet in common.
    subnet = data.draw(st.sets(st.sampled_from(sorted(names)))) if names else set()
    hosts = tuple(
        dataclasses.replace(host, ip=f"fd01::{number + 1:x}") if host.name in subnet else host
        for number, host in enumerate(fabric.hosts)
    )
    return dataclasses.replace(fabric, hosts=hosts)


@settings(max_examples=examples(50, 1000), deadline=None)
@given(data=st.data())
def test_each_ipv6_host_is_in_one_prefix_of_its_leaf_and_in_none_of_another_in_its_network(data: st.DataObject) -> None:
    fabric = drawn(data)
    network = fabric.planes.network[0].tolist()
    for number in fabric.ipv6_hosts.tolist():
        own, address = int(fabric.host_leaf[number]), IPv6Address(fabric.hosts[number].ip)
        for leaf, prefixes in enumerate(fabric.ipv6_leaf_prefixes):
            if network[leaf] == network[own]:
                assert sum(address in prefix for prefix in prefixes) == (leaf == own)
    ipv4 = [host for host in fabric.hosts if host.ip_version == 4]
    assert (sum(map(len, fabric.leaf_prefixes)) == 0) == (not ipv4)


@settings(max_examples=examples(50, 1000), deadline=None)
@given(data=st.data())
def test_each_host_is_known_by_its_address_and_by_the_number_that_stands_for_it(data: st.DataObject) -> None:
    fabric = drawn(data)
    number, name = address_finder(fabric), host_finder(fabric)
    for host in fabric.hosts:
        known = number(host.ip)
        assert known is not None
        assert known == number(host.name)
        assert known < 1 << 63
        assert name(known) == host.name


@settings(max_examples=examples(50, 1000), deadline=None)
@given(data=st.data())
def test_a_flow_between_addresses_of_two_versions_is_refused_and_no_other(data: st.DataObject) -> None:
    fabric = drawn(data)
    ends = (
        data.draw(st.lists(st.sampled_from(fabric.hosts), min_size=2, max_size=2, unique=True))
        if (fabric.n_hosts > 1 and fabric.planes.count == 1)
        else []
    )
    if not ends:
        return
    src, dst = ends
    job = parse_job({"flows": [{"src": src.name, "dst": dst.name, "bytes": 1}]}, name="a")
    if src.ip_version == dst.ip_version:
        assert expand(fabric, job).n_flows == 1
        return
    with pytest.raises(InputError) as refused:
        expand(fabric, job)
    assert refused.value.value == dst.ip
    assert f"{src.name} has an IPv{src.ip_version} address and {dst.name} an IPv{dst.ip_version} address" in str(
        refused.value
    )


@pytest.mark.parametrize(
    "command",
    [
        "export path-addresses --out OUT",
        "export port-classes --format iproute2 --out OUT",
    ],
)
def test_what_is_for_ipv4_refuses_an_ipv6_host_by_file_field_and_value(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(yaml_of(fabric_document(with_ipv6(with_routers(SMALL), ["h3"]))))
    words = [str(tmp_path) if word == "OUT" else word for word in command.split()]
    with pytest.raises(SystemExit) as end:
        main([*words, "--fabric", str(file)])
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert len(said.splitlines()) == 1
    assert f"{file}: hosts[2].ip: 'fd00:0:0:2::1': h3 has an IPv6 address, and " in said
