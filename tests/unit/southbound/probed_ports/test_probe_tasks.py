"""Laws of what hosts are asked to probe, and of the routers by which they tell paths apart."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ports.probe_task import AnswerBudget, read_task
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.southbound.probed_ports.probe_routes import check_probes, passed_switches, probe_route
from controller.southbound.probed_ports.probe_tasks import ProbeBudget, every_path, probe_document
from tests.rig.routers.probed_fabrics import with_addresses
from tests.unit.strategies import fabrics, pod_fabrics, with_ipv6, with_routers

probed = (
    st.one_of(fabrics(max_parallel=1, min_leaves=2), pod_fabrics(max_parallel=1)).map(with_routers).map(with_addresses)
)


@given(fabric=probed)
def test_the_answers_name_one_path_and_are_of_the_switches_that_it_passes(fabric: Fabric) -> None:
    check_probes(fabric)
    for src in range(fabric.n_leaves):
        for dst in range(fabric.n_leaves):
            if src == dst:
                continue
            route = probe_route(fabric, src, dst)
            assert len(set(route.routers)) == len(route.paths)
            assert [*route.paths] == fabric.ways.between(src, dst).tolist()
            for path, routers in zip(route.paths, route.routers, strict=True):
                passed = passed_switches(fabric, src, dst, path)
                assert [passed[hop - 2] for hop in route.hops] == [*routers]
                assert passed[0] in fabric.layers[1]
                assert fabric.leaves[dst] not in passed


@given(fabric=probed)
def test_a_last_probe_is_answered_by_the_leaf_of_the_receiver(fabric: Fabric) -> None:
    check_probes(fabric, last_leaf=True)
    for src in range(fabric.n_leaves):
        for dst in {*range(fabric.n_leaves)} - {src}:
            route, usual = probe_route(fabric, src, dst, last_leaf=True), probe_route(fabric, src, dst)
            assert (route.paths, route.hops[:-1]) == (usual.paths, usual.hops)
            assert route.routers == tuple((*row, fabric.leaves[dst]) for row in usual.routers)
            # The sender's leaf is the first hop.
            lengths = {len(passed_switches(fabric, src, dst, path)) + 2 for path in route.paths}
            assert not lengths or lengths == {route.hops[-1]}


@given(fabric=probed, data=st.data())
def test_a_host_probes_hosts_of_its_version_of_ip_and_knows_the_addresses_of_this_version(
    fabric: Fabric, data: st.DataObject
) -> None:
    mixed = with_ipv6_addresses(with_ipv6(fabric, data.draw(st.sets(st.sampled_from(fabric.host_names)))))
    check_probes(mixed)
    for host in range(mixed.n_hosts):
        task = read_task(probe_document(mixed, host, every_path(mixed, host), ProbeBudget(10, 100.0)))
        version = mixed.hosts[host].ip_version
        others = {
            other.ip for other in mixed.hosts if other.ip_version == version and other.leaf != mixed.hosts[host].leaf
        }
        assert {str(pair.dst) for pair in task.pairs} <= others
        assert {address.version for address in (task.source, *task.routers)} <= {version}
        of_routers = {text for each in mixed.switches for text in each.addresses if (":" in text) == (version == 6)}
        assert {str(address) for address in task.routers} <= of_routers
        assert bool(task.routers) == bool(task.pairs)


def with_ipv6_addresses(fabric: Fabric) -> Fabric:
    layers = tuple(
        tuple(
            dataclasses.replace(each, addresses=(*each.addresses, f"fd00:ff::{layer}:{n}"))
            for n, each in enumerate(switches)
        )
        for layer, switches in enumerate(fabric.layers)
    )
    return dataclasses.replace(fabric, layers=layers)


def test_switches_need_addresses_of_each_version_that_hosts_have() -> None:
    fabric = with_addresses(with_routers(clos(2, 2, 1)))
    check_probes(fabric)
    with pytest.raises(InputError, match=r"switches: 'spine1': has no IPv6 addresses, from which its answers"):
        check_probes(with_ipv6(fabric, ["h2"]))
    check_probes(with_ipv6_addresses(with_ipv6(fabric, ["h2"])))


def test_one_hop_limit_is_enough_in_two_and_in_three_layers() -> None:
    assert probe_route(clos(2, 2, 4), 0, 1).hops == (2,)
    pods = pod_clos(2, 2, 2, 2, 1)
    assert (probe_route(pods, 0, 1).hops, probe_route(pods, 0, 2).hops) == ((2,), (3,))


@given(
    fabric=probed,
    burst=st.integers(1, 9),
    rate=st.floats(0.01, 1e3),
    shares=st.sampled_from([(), (0.05,), (1e3,)]),
)
def test_an_agent_reads_what_is_wanted_of_it(
    fabric: Fabric, burst: int, rate: float, shares: tuple[float, ...]
) -> None:
    for host in range(fabric.n_hosts):
        wanted = every_path(fabric, host)
        task = read_task(probe_document(fabric, host, wanted, ProbeBudget(burst, rate, *shares)))
        assert (task.host, str(task.source)) == (fabric.hosts[host].name, fabric.hosts[host].ip)
        assert task.budget == AnswerBudget(burst, rate, *shares)
        number = {each.ip: n for n, each in enumerate(fabric.hosts)}
        assert {number[str(pair.dst)]: {**pair.wanted} for pair in task.pairs} == wanted
        for pair in task.pairs:
            route = probe_route(fabric, int(fabric.host_leaf[host]), int(fabric.host_leaf[number[str(pair.dst)]]))
            names = (tuple(each.name for each in row) for row in route.routers)
            assert {**pair.routes.paths} == dict(zip(names, route.paths, strict=True))
        for address, name in task.routers.items():
            assert str(address) in next(each for each in fabric.switches if each.name == name).addresses


@pytest.mark.parametrize(
    ("fabric", "message"),
    [
        (clos(1, 2, 2), "switches: 'spine1': has no addresses"),
        (with_addresses(clos(1, 2, 2, parallel=2)), "links: 'leaf1-spine1:1': is parallel to another cable"),
        (with_addresses(clos(1, 2, 2, planes=2, bond=True)), "hosts: ports that share an address"),
    ],
)
def test_fabrics_whose_paths_probes_cannot_tell_apart_are_refused(fabric: Fabric, message: str) -> None:
    with pytest.raises(InputError) as refused:
        check_probes(fabric)
    assert message in str(refused.value)
