"""Laws of the routes that exported configurations of BGP find, and of what they are made of."""

from __future__ import annotations

import re
from collections import Counter
from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.southbound.srv6.bgp_configuration import MOST_ASN, BgpObserver, as_numbers, bgp_configurations
from controller.southbound.srv6.carriers import path_ids
from controller.southbound.srv6.frr_bgp import frr_bgp
from controller.southbound.srv6.router_configuration import CableAddresses, link_ends, router_configurations
from controller.southbound.srv6.segment_ids import SegmentIds
from tests.unit.southbound.bgp.bgp_routes import bgp_routes, far_end, port_name, speakers
from tests.unit.southbound.plans import patient
from tests.unit.strategies import fabrics, pod_fabrics

any_fabric = st.one_of(fabrics(failures=False), pod_fabrics())


@patient
@given(any_fabric)
def test_without_failures_packets_to_hosts_have_the_next_hops_of_static_routes(fabric: Fabric) -> None:
    ids = SegmentIds.of(fabric)
    routes, addresses, ends = bgp_routes(ids, ()), CableAddresses(fabric), link_ends(fabric, port_name)
    for router in router_configurations(ids, port_name):
        for leaf, switch in enumerate(fabric.leaves):
            network = addresses.of_leaf(leaf)
            static = [route for route in router.routes if network.subnet_of(route.prefix)]
            if switch.name == router.name or not static:
                continue
            longest = max(static, key=lambda route: route.prefix.prefixlen)
            learned = routes[router.name].get(network)
            if learned is not None:
                ports = sorted(ends[link][1] for link in learned.links)
                assert ports == sorted(hop.interface for hop in longest.next_hops)


@patient
@given(any_fabric, st.data())
def test_whatever_is_down_packets_reach_each_leaf_to_which_a_path_is_left_and_never_go_in_circles(
    fabric: Fabric, data: st.DataObject
) -> None:
    cables = range(len(fabric.cables))
    down = data.draw(st.sets(st.sampled_from(cables), max_size=4)) if cables else set()
    now = fabric.without_links([fabric.cable_names[cable] for cable in down])
    routes, addresses = bgp_routes(SegmentIds.of(fabric), down), CableAddresses(fabric)
    for dst, there in enumerate(fabric.leaves):
        network = addresses.of_leaf(dst)
        for src, here in enumerate(fabric.leaves):
            if src != dst and now.live_paths(src, dst).size:
                assert network in routes[here.name], "there is a route wherever a path is left"
        for name, own in routes.items():
            at, hops = {name} if network in own else set(), 0
            while at - {there.name}:
                # All choices of all routers at once.
                at = {far_end(fabric, link) for router in at - {there.name} for link in routes[router][network].links}
                hops += 1
                assert hops <= 2 * len(fabric.layers), "each way ends"


@patient
@given(any_fabric, st.data())
def test_packets_with_a_path_take_it_by_routes_of_bgp_and_those_to_hosts(fabric: Fabric, data: st.DataObject) -> None:
    ids, hosts = SegmentIds.of(fabric), range(fabric.n_hosts)
    learned, ends = bgp_routes(ids, ()), link_ends(fabric, port_name)
    configured = {router.name: router.without_routes_over_cables() for router in router_configurations(ids, port_name)}

    def ports(router: str, first: int) -> set[str]:
        """The interfaces by which a router sends packets whose first id this is."""
        address = IPv6Address(ids.address((first,)))
        routes = {prefix: {ends[link][1] for link in route.links} for prefix, route in learned[router].items()}
        routes |= {route.prefix: {hop.interface for hop in route.next_hops} for route in configured[router].routes}
        return routes[max((prefix for prefix in routes if address in prefix), key=lambda prefix: prefix.prefixlen)]

    for _ in range(5):
        src, dst = data.draw(st.sampled_from(hosts)), data.draw(st.sampled_from(hosts))
        paths = fabric.live_paths(int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])).tolist()
        if src == dst or fabric.host_leaf[src] == fabric.host_leaf[dst] or not paths:
            continue
        path, inner = data.draw(st.sampled_from(paths)), data.draw(st.sampled_from((4, 6)))
        links = fabric.flow_links(src, dst, path)[1:]
        for link, first in zip(links, path_ids(ids, src, dst, path, inner=inner), strict=True):
            router, port = ends[link]
            assert ports(router, first) == {port}


@given(any_fabric)
def test_as_numbers_and_router_ids_differ_where_they_have_to(fabric: Fabric) -> None:
    ids = SegmentIds.of(fabric)
    numbers, made = as_numbers(fabric), speakers(ids)
    assert numbers == {name: each.asn for name, each in made.items()}
    assert all(0 < number <= MOST_ASN for number in numbers.values())
    assert len({numbers[leaf.name] for leaf in fabric.leaves}) == fabric.n_leaves
    assert len({each.router_id for each in made.values()}) == len(made)
    layers = [{numbers[switch.name] for switch in layer} for layer in fabric.layers]
    assert sum(map(len, layers)) == len(set().union(*layers))
    assert len(layers[-1]) <= 1
    for cable in fabric.cables:
        assert numbers[cable.lower] != numbers[cable.upper], "sessions within a fabric are between two AS numbers"


@given(st.one_of(fabrics(max_parallel=3, failures=False), pod_fabrics()))
def test_the_text_for_frr_has_each_neighbour_and_network_and_announces_no_id_over_another_cable(fabric: Fabric) -> None:
    observers = (BgpObserver(IPv6Address("fd00::1")), BgpObserver(IPv4Address("192.0.2.1"), 65000))
    for router in bgp_configurations(SegmentIds.of(fabric), port_name, observers=observers):
        text = frr_bgp(router)
        lines = Counter(line.strip() for line in text.splitlines())
        for network in (*router.networks, *router.networks_of_hosts):
            assert lines[f"network {network}"] == 1
        for each in router.neighbors:
            assert lines[f"neighbor {each.interface} interface peer-group FABRIC"] == 1
            denied = re.findall(rf"^ipv6 prefix-list OUT-{each.interface} seq \d+ permit (\S+)$", text, re.MULTILINE)
            assert denied == list(map(str, each.withheld))
            assert lines[f"neighbor {each.interface} route-map OUT-{each.interface} out"] == bool(denied)
        for observer in observers:
            assert lines[f"neighbor {observer.address} remote-as {observer.asn}"] == 1
            assert lines[f"neighbor {observer.address} route-map NOTHING in"] == 1


def test_each_id_of_parallel_cables_is_announced_over_its_own_cable() -> None:
    fabric = clos(2, 2, 1, parallel=2)
    ids = SegmentIds.of(fabric)
    for name, router in speakers(ids).items():
        singles = [network for network in router.networks if network.prefixlen == 48]
        assert len(singles) == 2, name
        announced = Counter(network for each in router.neighbors for network in singles if network not in each.withheld)
        assert announced == dict.fromkeys(singles, len(router.neighbors) // 2)
