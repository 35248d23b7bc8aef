"""Verdicts on cables by agents and routers: whom they believe, and which conflicts they tell."""

from __future__ import annotations

from collections.abc import Iterable

from controller.model.files.clos import clos
from controller.southbound.bgp.cable_verdicts import CableVerdicts
from controller.southbound.bgp.router_reach import SETTLE_SECONDS, RouterReach
from controller.southbound.srv6 import cable_evidence
from controller.southbound.srv6.bgp_configuration import as_numbers
from controller.southbound.srv6.segment_ids import SegmentIds

FABRIC = clos(1, 2, 2)
IDS, ASNS = SegmentIds.of(FABRIC), as_numbers(FABRIC)
CABLE, OTHER = map(FABRIC.cable_names.index, ("leaf1-spine1", "leaf2-spine1"))
Route = tuple[str, int, int, str]
"""A router, and the layer, index and name of a neighbour."""
ENDS: list[Route] = [("leaf1", 1, 0, "spine1"), ("spine1", 0, 0, "leaf1")]
BESIDE: list[Route] = [("leaf2", 1, 0, "spine1"), ("spine1", 0, 1, "leaf2")]
NO_SESSION = "leaf1 and spine1 have no BGP session over it"


class Court:
    """Routers with sessions at the ends of a cable, and of another one behind it, and agents."""

    def __init__(self) -> None:
        self.now, self.news, self.notices = 0.0, list[bool](), 0
        self.reach = RouterReach(IDS, ASNS)
        self.verdicts = CableVerdicts(
            FABRIC.cable_names, self.reach, changed=self.news.append, noticed=self.has_noticed
        )
        for router in ("leaf1", "leaf2", "spine1"):
            self.reach.began(router, 0.0)
        self.routers(BESIDE, up=True)
        self.news.clear()
        self.routers(ENDS, up=True)

    def has_noticed(self) -> None:
        self.notices += 1

    def routers(self, routes: Iterable[Route], *, up: bool) -> None:
        for name, layer, index, other in routes:
            path = (ASNS[name], ASNS[other]) if up else ()
            self.reach.takes(name, IDS.prefix(IDS.switch(layer, index)), path, self.now)
        self.verdicts.judge(self.now)

    def agents(self, *, lost: bool) -> None:
        for host in ("h1", "h2"):
            dead = [frozenset({CABLE})] if lost else []
            # Their probes turn around at leaf2.
            self.verdicts.take(host, self.now, dead, [] if lost else [frozenset({CABLE, OTHER})])

    def later(self, seconds: float = SETTLE_SECONDS + cable_evidence.SETTLE_SECONDS) -> None:
        self.now += seconds
        self.verdicts.judge(self.now)

    @property
    def verdict(self) -> str | None:
        return self.verdicts.cables.get(CABLE)


def test_what_routers_lose_is_down_at_once_and_up_again_with_them() -> None:
    court = Court()
    assert (court.verdict, court.news) == ("", [False])
    court.routers(ENDS, up=False)
    assert (court.verdict, court.news) == (NO_SESSION, [False, True])
    court.later()
    assert (court.verdict, court.verdicts.conflicts) == (NO_SESSION, [])
    court.routers(ENDS, up=True)
    assert (court.verdict, court.news) == ("", [False, True, False])


def test_probes_that_come_back_later_count_more_than_a_lost_session_and_the_conflict_is_told() -> None:
    court = Court()
    court.agents(lost=False)
    court.routers(ENDS, up=False)
    assert court.verdict == NO_SESSION, "probes from before say nothing"
    court.now += 1.0
    court.agents(lost=False)
    assert court.verdict == NO_SESSION, "a report may have answers from before"
    court.later()
    assert court.verdict == NO_SESSION
    court.agents(lost=False)
    assert court.verdict == ""
    conflict = f"leaf1-spine1: {NO_SESSION}, but probes of hosts come back over it; it counts as up"
    assert (court.verdicts.conflicts, court.notices) == ([conflict], 1)
    court.agents(lost=True)
    assert court.verdict == "packets over it are lost, as the agents of h1, h2 report"
    assert court.verdicts.conflicts == []
    court.routers(ENDS, up=True)
    court.now += 1.0
    court.agents(lost=False)
    assert (court.verdict, court.verdicts.conflicts) == ("", [])


def test_a_silent_loss_is_down_although_bgp_reaches_the_other_end_and_the_conflict_is_told() -> None:
    court = Court()
    court.later()
    court.agents(lost=True)
    lost = "packets over it are lost, as the agents of h1, h2 report"
    assert court.verdict == lost
    reaches = "leaf1 and spine1 still reach the other end by BGP"
    assert court.verdicts.conflicts == [f"leaf1-spine1: {lost}, but {reaches}; it counts as down"]
    court.routers(ENDS, up=False)
    assert (court.verdict, court.verdicts.conflicts) == (lost, [])
    # Agents do not report of hosts that follow no plans.
    court.verdicts.count_agents(False, court.now)
    assert court.verdict == NO_SESSION


def test_two_routers_that_disagree_are_told_once_that_lasts_and_the_cable_counts_as_down() -> None:
    court = Court()
    court.routers(ENDS[1:], up=False)
    assert court.verdict == "spine1 has no BGP session over it"
    assert court.verdicts.conflicts == [], "one end may see it later"
    court.later()
    assert court.verdicts.conflicts == [
        "leaf1-spine1: spine1 has no BGP session over it, but leaf1 has one; it counts as down"
    ]


def test_probes_that_may_have_passed_over_all_their_cables_say_nothing_against_routers() -> None:
    court = Court()
    court.later()
    court.routers([*ENDS, *BESIDE], up=False)
    court.later()
    court.agents(lost=False)
    assert court.verdict == NO_SESSION
    court.routers(BESIDE, up=True)
    court.agents(lost=False)
    assert court.verdict == NO_SESSION, "a report may have answers from before"
    court.later()
    court.agents(lost=False)
    assert court.verdict == ""
    assert court.verdicts.conflicts
    court.routers(BESIDE, up=False)
    assert court.verdict == NO_SESSION
