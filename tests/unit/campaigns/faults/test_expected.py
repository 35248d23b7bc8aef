"""Expected rules of the fault campaign, and detection of wrong routes."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.southbound.rules.rule_set import RuleSet
from tests.campaigns.faults.expected import PublishedRoutes, mistakes, rules
from tests.campaigns.faults.state import ExpectedPiece, FaultState
from tests.unit.routing.pod_fabrics import fat_tree

JOBS = {"one": {"flows": "some"}}


def state(**changes: Any) -> FaultState:
    return dataclasses.replace(FaultState(clos(2, 3, 1), jobs=dict(JOBS)), **changes)


def over(spine: str, src: str = "h1", dst: str = "h2") -> ExpectedPiece:
    a, b = src.replace("h", "leaf"), dst.replace("h", "leaf")
    links = (f"{src}->{a}", f"{a}->{spine}", f"{spine}->{b}", f"{b}->{dst}")
    return ExpectedPiece("one/some/0", src, dst, 49152, links)


def size(given: RuleSet) -> int:
    return sum(len(given[dpid]) for dpid in given)


def told(*pieces: ExpectedPiece) -> PublishedRoutes:
    return PublishedRoutes(pieces, ())


UNROUTED = PublishedRoutes((), (("one/some/0", "h1", "h2"),))


def test_a_plan_over_live_links_is_right_whatever_else_is_broken() -> None:
    for now in (
        state(),
        state(down={"leaf1-spine1"}),
        state(off={"spine1", "leaf3"}),
        state(drained={"spine1"}),
        state(down={"leaf3-spine2", "h3-leaf3"}, drained={"leaf2-spine1"}),
    ):
        assert mistakes(now, told(over("spine2"))) == []


@pytest.mark.parametrize(
    ("now", "said", "what"),
    [
        (state(down={"leaf2-spine1"}), told(over("spine1")), "is planned over spine1->leaf2"),
        (state(off={"spine1"}), told(over("spine1")), "is planned over leaf1->spine1"),
        (state(drained={"leaf1-spine1"}), told(over("spine1")), "is planned over leaf1->spine1"),
        (state(down={"h2-leaf2"}), told(over("spine1")), "there is none from h1 to h2"),
        (state(), UNROUTED, "there is a path from h1 to h2"),
        (state(jobs={}), told(over("spine1")), "jobs ['one'] are planned instead of []"),
        (state(), told(), "jobs [] are planned instead of ['one']"),
    ],
)
def test_contradictions_are_reported(now: FaultState, said: PublishedRoutes, what: str) -> None:
    assert any(what in text for text in mistakes(now, said)), mistakes(now, said)


def test_a_flow_without_any_way_is_rightly_unroutable_and_a_drain_that_would_cut_one_off_counts_for_nothing() -> None:
    assert mistakes(state(down={"leaf1-spine1", "leaf1-spine2"}), UNROUTED) == []
    assert mistakes(state(drained={"spine1", "spine2"}), told(over("spine1"))) == []


def test_paths_of_three_layers_are_known_by_their_links() -> None:
    fabric = fat_tree(4)
    now = FaultState(fabric, jobs=dict(JOBS))
    src, dst = 0, fabric.n_hosts - 1
    leaves = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
    base = rules(now, ())
    for path in fabric.live_paths(*leaves).tolist():
        links = tuple(fabric.link_ids[link] for link in fabric.flow_links(src, dst, path))
        piece = ExpectedPiece("one/some/0", "h1", fabric.host_names[dst], 49152, links)
        assert mistakes(now, told(piece)) == []
        extra = {
            switch.name: len(rules(now, [piece])[switch.dpid]) - len(base[switch.dpid]) for switch in fabric.switches
        }
        # A rule at the leaf and one at the aggregation switch, of those that are on the path.
        assert {name for name, many in extra.items() if many} == {links[1].split("->")[0], links[2].split("->")[0]}


def test_reachable_is_what_the_graph_joins_and_has_power() -> None:
    hosts = ("h1", "h2", "h3")
    assert set(state().reachable) == set(itertools.permutations(hosts, 2))
    assert set(state(off={"leaf3"}).reachable) == {("h1", "h2"), ("h2", "h1")}
    assert state(off={"spine1", "spine2"}).reachable == []
    half = state(down={"leaf1-spine1", "leaf2-spine2"})
    assert set(half.reachable) == set(itertools.permutations(hosts, 2)) - {("h1", "h2"), ("h2", "h1")}


def test_each_mode_expects_other_rules_and_a_planned_flow_one_of_its_own_where_rules_are_per_flow() -> None:
    flow, base = rules(state(), [over("spine1")]), rules(state(mode="ecmp"), [over("spine1")])
    assert size(flow) == size(base) + 1
    assert set(flow[1].rules) - set(base[1].rules)
    assert rules(state(), [over("spine2")])[1] != flow[1]
    ports = rules(state(enforcement="source_port"), [over("spine1")])
    assert ports == rules(state(enforcement="source_port"), [over("spine2")])


def test_rules_stay_as_they_were_frozen_whatever_the_hosts_routes_have_since() -> None:
    before = state(mode="planned", routes=(over("spine1"),))
    frozen = state(mode="frozen", jobs={}, frozen=before)
    assert rules(frozen, []) == rules(before, before.routes) != rules(before, [])


TWO_PLANES = clos(2, 2, 2, planes=2)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, None),
        ({"drained": {"plane2"}}, "other ports are not drained"),
        ({"drained": {"leaf3"}}, "other ports are not drained"),
        ({"drained": {"plane1", "plane2"}}, None),
        ({"drained": {"plane2"}, "down": {"h1.p1-leaf1"}}, None),
        ({"off": {"leaf3"}}, "there is none from h1.p2 to h2.p2"),
    ],
)
def test_a_flow_over_a_port_that_is_drained_or_dead_is_wrong_if_another_port_serves(
    changes: dict[str, Any], what: str | None
) -> None:
    now = dataclasses.replace(FaultState(TWO_PLANES, jobs=dict(JOBS)), **changes)
    piece = ExpectedPiece("one/some/0", "h1.p2", "h2.p2", 49152, ("h1.p2->leaf3", "leaf3->h2.p2"))
    found = mistakes(now, told(piece))
    assert (found == []) if what is None else any(what in text for text in found), found
