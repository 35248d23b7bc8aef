"""Inference of hashes from counters: no wrong path has full confidence, for any hash."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.traffic import FIRST_PORT
from controller.southbound.enforcement.registry import encode_flows
from controller.southbound.forwarding.base import compile_base
from controller.telemetry.infer import ESTIMATED_MOST, HashedPaths, infer
from controller.telemetry.sent_bytes import between, sent
from controller.telemetry.trace import Traced, TraceInputs, trace
from tests.traffic_columns import traffic_of_columns
from tests.unit.southbound.plans import patient
from tests.unit.telemetry.readings import counted, reading


@dataclasses.dataclass
class World:
    """Flows that are hashed, where they went, and what has been counted of it."""

    situation: TraceInputs
    traced: list[Traced]
    truth: list[int]
    size: np.ndarray

    def link_bytes(self) -> np.ndarray:
        """[E] bytes by directed link."""
        carried = np.zeros(self.situation.fabric.n_links)
        for row, way in enumerate(self.truth):
            carried[list(self.traced[row].ways[way].links)] += self.size[row]
        return carried

    def choices(self, other: np.ndarray | float = 0.0) -> dict[int, HashedPaths]:
        """``other``: [E] bytes of something else."""
        fabric = self.situation.fabric
        before, now = counted(fabric, np.zeros(fabric.n_links), 1.0), counted(fabric, self.link_bytes() + other, 3.0)
        carried = between(fabric, before, now)
        assert np.allclose(carried.seconds, 2.0)
        assert np.allclose(carried.bytes, self.link_bytes() + other, atol=1)
        own = np.full(len(self.traced), np.nan)
        return infer(self.situation, self.traced, sent(self.situation, carried.bytes, own))


def world(fabric: Fabric, ends: list[tuple[int, int]], size: list[int], truth: list[int]) -> World:
    src, dst = ([end[i] for end in ends] for i in range(2))
    traffic = traffic_of_columns(src, dst, FIRST_PORT + np.arange(len(ends)))
    leaf = fabric.host_leaf
    paths = [fabric.live_paths(leaf[a], leaf[b]) if leaf[a] != leaf[b] else [-1] for a, b in ends]
    local = np.array([each[0] for each in paths])
    wire = encode_flows(fabric, traffic, Assignment.single(local), "per_flow")
    situation = TraceInputs(fabric, traffic, wire, mode="ecmp")
    traced = trace(situation, reading(fabric, compile_base(fabric)))
    places = [way % len(traced[row].ways) for row, way in enumerate(truth)]
    return World(situation, traced, places, np.array(size, dtype=np.float64))


@st.composite
def worlds(draw: st.DrawFn, *, lone: bool) -> World:
    """``lone``: each host sends one flow, and each receives one."""
    if draw(st.booleans()):
        fabric = clos(draw(st.integers(2, 4)), draw(st.integers(2, 3)), draw(st.integers(1, 3)))
    else:
        fabric = pod_clos(2, draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2)), 2)
    n = fabric.n_hosts
    if lone:
        order = draw(st.permutations(range(n)))
        ends = [(order[i], order[(i + 1) % n]) for i in range(n)]
    else:
        hosts = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda ends: ends[0] != ends[1])
        ends = draw(st.lists(hosts, min_size=1, max_size=10))
    sizes = st.one_of(st.sampled_from([10**6, 2 * 10**6]), st.integers(10**5, 10**7))
    size = draw(st.lists(sizes, min_size=len(ends), max_size=len(ends)))
    truth = draw(st.lists(st.integers(0, 3), min_size=len(ends), max_size=len(ends)))
    return world(fabric, ends, size, truth)


@patient
@given(worlds(lone=True))
def test_where_each_host_sends_one_flow_the_truth_is_among_what_is_possible_and_what_is_sure_is_true(
    made: World,
) -> None:
    found = made.choices()
    for row, choice in found.items():
        assert made.truth[row] in choice.possible
        assert 0 <= choice.sure <= 1
        if choice.sure == 1:
            assert (choice.way, choice.possible) == (made.truth[row], (made.truth[row],))


@patient
@given(st.booleans().flatmap(lambda lone: worlds(lone=lone)), st.data())
def test_where_packets_are_lost_on_the_way_what_is_sure_is_still_true(made: World, data: st.DataObject) -> None:
    """Each link loses a part of what it carries: counted by who sends it, and not behind."""
    fabric = made.situation.fabric
    part = data.draw(st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.5]), min_size=fabric.n_links, max_size=fabric.n_links))
    before_wire = data.draw(st.booleans())
    carried = np.zeros(fabric.n_links)
    for row, way in enumerate(made.truth):
        size = made.size[row]
        for link in made.traced[row].ways[way].links:
            # A full queue loses packets before they are counted as sent; a wire behind that.
            own = link >= fabric.n_hosts and part[link]
            carried[link] += size * (1 - own) if before_wire else size
            size *= 1 - own
    before, now = counted(fabric, np.zeros(fabric.n_links), 1.0), counted(fabric, carried, 3.0)
    sizes = sent(made.situation, between(fabric, before, now).bytes, np.full(len(made.traced), np.nan))
    for row, choice in infer(made.situation, made.traced, sizes).items():
        if choice.sure == 1:
            assert choice.way == made.truth[row]


@patient
@given(worlds(lone=False))
def test_where_sizes_are_guesses_nothing_is_sure_and_nothing_is_ruled_out(made: World) -> None:
    for row, choice in made.choices().items():
        assert made.truth[row] in choice.possible
        if choice.sure > ESTIMATED_MOST:
            assert choice.way == made.truth[row]


@patient
@given(worlds(lone=True))
def test_the_reported_placement_explains_the_counters_of_every_uplink(made: World) -> None:
    found = made.choices()
    told, fabric = np.zeros(made.situation.fabric.n_links), made.situation.fabric
    if any(choice.way is None for choice in found.values()):
        return
    for row, each in enumerate(made.traced):
        way = found[row].way if row in found else 0
        assert way is not None
        told[list(each.ways[way].links)] += made.size[row]
    up = slice(fabric.first_cable_link, None, 2)
    # Flows of about one size may have changed places.
    assert np.allclose(told[up], made.link_bytes()[up], rtol=0.1, atol=0.15 * made.size.min())


def test_flows_of_equal_size_are_known_by_number_but_not_individually() -> None:
    """Four hosts of leaf 1 send to one host each; two of their flows are on the first uplink."""
    made = world(clos(3, 2, 4), [(0, 4), (1, 5), (2, 6), (3, 7)], [10**6] * 4, [0, 0, 1, 2])
    found = made.choices()
    assert {choice.sure for choice in found.values()} == {0.5, 0.25}
    assert Counter(choice.way for choice in found.values()) == {0: 2, 1: 1, 2: 1}
    assert {choice.possible for choice in found.values()} == {(0, 1, 2)}


def test_flows_of_different_sizes_are_known_individually() -> None:
    made = world(clos(3, 2, 4), [(0, 4), (1, 5), (2, 6), (3, 7)], [10, 23, 50, 110], [2, 0, 0, 1])
    assert {row: (choice.way, choice.sure) for row, choice in made.choices().items()} == {
        row: (way, 1.0) for row, way in enumerate(made.truth)
    }


def test_where_a_flow_cannot_have_come_down_it_did_not_go_up() -> None:
    """Two flows of one size, to different leaves: what came down at each leaf tells them apart."""
    made = world(clos(2, 3, 2), [(0, 2), (1, 4)], [10**6, 10**6], [0, 1])
    assert {row: (choice.way, choice.sure) for row, choice in made.choices().items()} == {0: (0, 1.0), 1: (1, 1.0)}


def test_in_three_layers_the_plane_and_the_core_of_a_flow_are_known_where_sizes_differ() -> None:
    """One flow of each host of the first pod leaves it, but for one that goes to the other leaf of the pod."""
    made = world(pod_clos(2, 2, 2, 2, 2), [(0, 4), (1, 2), (2, 6), (3, 7)], [10, 23, 50, 110], [3, 1, 0, 2])
    assert {row: (choice.way, choice.sure) for row, choice in made.choices().items()} == {
        row: (way, 1.0) for row, way in enumerate(made.truth)
    }


def test_flows_of_one_size_are_told_apart_by_which_of_them_leaves_the_pod() -> None:
    """Both flows of the first leaf have one size; only one of them crosses, and one core link has carried it."""
    made = world(pod_clos(2, 2, 2, 2, 2), [(0, 4), (1, 2)], [10**6, 10**6], [2, 0])
    assert {row: (choice.way, choice.sure) for row, choice in made.choices().items()} == {0: (2, 1.0), 1: (0, 1.0)}


def test_other_traffic_of_a_host_is_inferred_from_where_it_arrived() -> None:
    """h1 sends to h3 and h4: what they received says how much to each."""
    made = world(clos(2, 2, 2), [(0, 2), (0, 3)], [10**6, 3 * 10**6], [0, 1])
    assert {row: (choice.way, choice.sure) for row, choice in made.choices().items()} == {0: (0, 1.0), 1: (1, 1.0)}


def test_other_traffic_makes_it_say_nothing_rather_than_something_false() -> None:
    made = world(clos(3, 2, 2), [(0, 2), (1, 3)], [10**6, 3 * 10**6], [0, 1])
    other = np.zeros(made.situation.fabric.n_links)
    # From elsewhere: it is on an uplink of leaf 1 and on no link of its hosts.
    other[made.situation.fabric.first_cable_link + 4] = 2 * 10**6
    for choice in made.choices(other).values():
        assert (choice.way, choice.sure) == (None, 0.0)
        assert "other traffic" in choice.why


def test_idle_flows_and_restarted_counters_give_no_path() -> None:
    made = world(clos(3, 2, 2), [(0, 2), (1, 3)], [0, 10**6], [0, 1])
    found = made.choices()
    assert (found[0].way, found[0].sure, len(found[0].possible)) == (None, 0.0, 3)
    assert (found[1].way, found[1].sure) == (1, 1.0)
    fabric = made.situation.fabric
    later, sooner = (counted(fabric, np.full(fabric.n_links, many), at) for many, at in ((5.0, 1.0), (0.0, 2.0)))
    assert np.isnan(between(fabric, later, sooner).bytes).all()
    nothing = between(fabric, {}, sooner)
    own = np.full(2, np.nan)
    for choice in infer(made.situation, made.traced, sent(made.situation, nothing.bytes, own)).values():
        assert (choice.way, choice.sure) == (None, 0.0)
        assert "two readings of counters" in choice.why


def test_many_flows_of_many_sizes_end_in_good_time() -> None:
    """32 hosts of a leaf, 8 uplinks, every size another one: the ways are too many to count."""
    n = 32
    sizes = [10**6 + 61_803 * i for i in range(n)]
    made = world(clos(8, 2, n), [(i, n + i) for i in range(n)], sizes, [(i * 5) % 8 for i in range(n)])
    for row, choice in made.choices().items():
        assert made.truth[row] in choice.possible
        assert choice.sure < 1


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_cable_that_only_its_far_end_counts_is_known_all_the_same(parallel: int) -> None:
    fabric = clos(2, 2, 1, parallel=parallel)
    carried = np.arange(fabric.n_links, dtype=np.float64)
    before, now = counted(fabric, carried * 0, 1.0), counted(fabric, carried, 2.0)
    del now[1]
    found = between(fabric, before, now).bytes
    first = fabric.first_cable_link
    assert np.array_equal(found[first:], carried[first:])
    assert np.isnan(found[[0, fabric.n_hosts]]).all()
