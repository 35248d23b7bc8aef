"""Laws of SRv6 carriers and tables: planned paths are taken, and no failure makes a loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from ipaddress import IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.southbound.srv6.carriers import path_ids, probe_ids
from controller.southbound.srv6.router_tables import router_tables
from controller.southbound.srv6.segment_ids import DEFAULT_BLOCK, SegmentIds
from controller.southbound.srv6.walk import MOST_HOPS, RouterWalk, walk
from tests.unit.strategies import fabrics, nic_fabrics, plane_fabrics, pod_fabrics


@st.composite
def fabrics_with_locators(draw: st.DrawFn) -> Fabric:
    """A fabric whose switches have locators of their own, in any order."""
    fabric = draw(st.one_of(fabrics(max_parallel=1), pod_fabrics(max_parallel=1)))
    ids = draw(st.permutations(range(1, len(fabric.switches) + 1)))
    locator = {each.name: f"fcbb:bb00:{n:x}::/48" for each, n in zip(fabric.switches, ids, strict=True)}
    layers = tuple(
        tuple(dataclasses.replace(each, locator=locator[each.name]) for each in layer) for layer in fabric.layers
    )
    return dataclasses.replace(fabric, layers=layers)


any_fabric = st.one_of(fabrics(), pod_fabrics(), plane_fabrics(), nic_fabrics(), fabrics_with_locators())


def flows(fabric: Fabric) -> list[tuple[int, int, int]]:
    """Each two hosts with each path between their leaves; -1 within a leaf."""
    rows = []
    for src in range(fabric.n_hosts):
        for dst in range(fabric.n_hosts):
            ends = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
            if src != dst and ends[0] == ends[1]:
                rows.append((src, dst, -1))
            elif src != dst:
                rows += [(src, dst, path) for path in fabric.ways.between(*ends).tolist()]
    return rows


def sent(fabric: Fabric, now: Fabric, row: tuple[int, int, int], pick: object = min) -> RouterWalk:
    """The way of a packet of a flow, where some cables are down."""
    ids = SegmentIds(fabric)
    carrier = ids.address(path_ids(ids, *row))
    return walk(ids, now, router_tables(ids), row[0], carrier, pick)  # type: ignore[arg-type]


@given(any_fabric, st.data())
def test_a_packet_takes_its_planned_path_while_that_is_up(fabric: Fabric, data: st.DataObject) -> None:
    rows = flows(fabric)
    if not rows:
        return
    src, dst, path = data.draw(st.sampled_from(rows))
    planned = fabric.flow_links(src, dst, path)
    if not all(fabric.link_up[link] for link in planned):
        return
    taken = sent(fabric, fabric, (src, dst, path))
    assert taken == RouterWalk(planned, dst, taken.ids)
    assert len(taken.ids) == 1, "only the receiver's own id is left"


@given(any_fabric, st.data())
def test_no_failures_make_a_loop_or_bring_a_packet_to_another_host(fabric: Fabric, data: st.DataObject) -> None:
    rows = flows(fabric)
    if not rows:
        return
    row = data.draw(st.sampled_from(rows))
    down = data.draw(st.sets(st.sampled_from(fabric.cable_names), max_size=3) if fabric.cable_names else st.just(set()))
    now = fabric.without_links(down)

    def pick(links: Sequence[int]) -> int:
        return data.draw(st.sampled_from(list(links)))

    taken = sent(fabric, now, row, pick)
    assert taken.host in (None, row[1])
    assert (taken.host is None) == bool(taken.reason)
    assert len(taken.links) < MOST_HOPS
    assert len(taken.links) <= 2 * len(fabric.layers), "it goes up, then down"


@given(any_fabric, st.data())
def test_a_dead_uplink_loses_no_packet_where_another_one_leads_on(fabric: Fabric, data: st.DataObject) -> None:
    """The switch below a dead uplink passes over the switch above it, if all else is up."""
    fabric = fabric.healthy()
    rows = [row for row in flows(fabric) if row[2] >= 0]
    if not rows:
        return
    src, dst, path = data.draw(st.sampled_from(rows))
    planned = fabric.flow_links(src, dst, path)
    uplink = data.draw(st.sampled_from(planned[1 : len(planned) // 2]))
    cable = (uplink - fabric.first_cable_link) // 2
    now = fabric.without_links([fabric.cable_names[cable]])
    taken = sent(fabric, now, (src, dst, path))
    ends = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
    # From the switch below the dead cable on, some path by the same choices below it is up.
    below = planned[: planned.index(uplink)]
    alive = [p for p in now.live_paths(*ends).tolist() if now.flow_links(src, dst, p)[: len(below)] == below]
    assert (taken.host == dst) == bool(alive), taken


@given(any_fabric, st.data())
def test_a_probe_comes_back_by_the_cables_of_its_path(fabric: Fabric, data: st.DataObject) -> None:
    rows = [row for row in flows(fabric.healthy()) if row[2] >= 0]
    if not rows:
        return
    fabric = fabric.healthy()
    src, dst, path = data.draw(st.sampled_from(rows))
    ids = SegmentIds(fabric)
    around = probe_ids(ids, src, dst, path)
    links = fabric.flow_links(src, dst, path)[1:-1]
    if around is None:
        assert len(links) == 4, "two layers have room for probes"
        return
    taken = walk(ids, fabric, router_tables(ids), src, ids.address(around))
    back = tuple(link ^ 1 for link in reversed(links))
    assert taken.links == (src, *links, *back, fabric.n_hosts + src)
    assert taken.host == src


@given(any_fabric)
def test_ids_of_carriers_are_read_back(fabric: Fabric) -> None:
    ids = SegmentIds(fabric, IPv6Network("fc00:1::/32"))
    for row in flows(fabric)[:50]:
        chosen = path_ids(ids, *row)
        assert ids.ids_of(ids.address(chosen)) == chosen
        assert any(ids.address(chosen) in ids.prefix(each) for each in ids.layer(0 if row[2] < 0 else 1))


def test_all_ids_of_switches_differ() -> None:
    fabric = pod_clos(3, 4, 2, 2, 2, parallel=3, core_parallel=2)
    ids = SegmentIds(fabric)
    ranges = [ids.switch(layer, i) for layer, switches in enumerate(fabric.layers) for i in range(len(switches))]
    numbers = [each.first + n for each in ranges for n in range(each.count)]
    assert len(set(numbers)) == len(numbers)
    assert 0 not in numbers


@pytest.mark.parametrize(
    ("fabric", "block", "message"),
    [
        (clos(1, 2, 1), "fcbb:bb00::/40", "block: 'fcbb:bb00::/40': a block has 16, 32 or 48 bits"),
        (
            clos(4000, 1, 1, parallel=3),
            "fcbb:bb00::/32",
            "switches: 'spine2049': there are segment ids for 2048 switches of the role spine; the fabric has 4000",
        ),
    ],
)
def test_what_ids_cannot_name_is_refused_in_one_line(fabric: Fabric, block: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        router_tables(SegmentIds(fabric, IPv6Network(block)))
    assert str(refused.value) == message


def test_a_path_that_does_not_fit_behind_a_long_block_is_refused() -> None:
    ids = SegmentIds(pod_clos(2, 1, 1, 1, 1), IPv6Network("fcbb:bb00:1::/48"))
    assert ids.places == 5
    assert ids.address(path_ids(ids, 0, 1, int(ids.fabric.ways.between(0, 1)[0]))) is not None
    with pytest.raises(InputError, match="a path needs 6 segment ids, and 5 fit"):
        ids.address((1, 2, 3, 4, 5, 6))
    assert SegmentIds(ids.fabric, DEFAULT_BLOCK).places == 6
