"""The side of routers: what it makes of the sessions that a speaker opens, and what it tells people."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address

import pytest

from controller.model.files.clos import clos
from controller.router_southbound import MISSING_SECONDS, MOST_NOTICES, RouterSouthbound
from controller.southbound.bgp.route_listener import RouteListener
from controller.southbound.bgp.sessions_file import BgpSession, BgpSessions
from controller.southbound.srv6.bgp_configuration import as_numbers
from controller.southbound.srv6.segment_ids import SegmentIds
from tests.unit.strategies import with_routers

FABRIC = with_routers(clos(4, 4, 1))
IDS, ASNS = SegmentIds.of(FABRIC), as_numbers(FABRIC)
NAMES = [switch.name for switch in FABRIC.switches]
SESSIONS = BgpSessions(
    tuple(BgpSession(name, IPv6Address(f"fd00::{n}"), ASNS[name]) for n, name in enumerate(NAMES, start=1))
)


class GoneError(Exception):
    """A wait that nothing would end."""


class Signal:
    def wait(self, seconds: float | None = None) -> object:
        raise GoneError

    def set(self) -> None: ...

    def clear(self) -> None: ...


class Once(Signal):
    """Lets one look happen."""

    def __init__(self) -> None:
        self.left = 1

    def wait(self, seconds: float | None = None) -> object:
        if not self.left:
            self.left = 1
            raise GoneError
        self.left -= 1
        return None


class Runtime:
    def __init__(self) -> None:
        self.at, self.task = 0.0, list[Callable[[], None]]()

    def clock(self) -> float:
        return self.at

    def signal(self) -> Signal:
        return Once()

    def spawn(self, task: Callable[[], None]) -> None:
        self.task.append(task)


class QuietSpeaker:
    def __init__(self, sessions: BgpSessions, listener: RouteListener) -> None:
        assert sessions is SESSIONS

    def start(self) -> None: ...

    def close(self) -> None: ...


class World:
    def __init__(self) -> None:
        self.runtime, self.news, self.noticed = Runtime(), list[bool](), 0
        self.routers = RouterSouthbound(
            IDS,
            SESSIONS,
            self.runtime,  # type: ignore[arg-type]
            QuietSpeaker,
            changed=self.news.append,
            noticed=self.notice,
        )
        self.routers.start()

    def notice(self) -> None:
        self.noticed += 1

    def look(self, later: float = 0.0) -> list[str]:
        self.runtime.at += later
        with pytest.raises(GoneError):
            self.runtime.task[0]()
        return self.routers.notices()

    def hear(self, router: str) -> None:
        """A session of a router that reaches all neighbours."""
        self.routers.began(router)
        for cable in FABRIC.cables:
            if router in (cable.lower, cable.upper):
                other = cable.upper if router == cable.lower else cable.lower
                layer = FABRIC.layer_of[other]
                index = [switch.name for switch in FABRIC.layers[layer]].index(other)
                path = (ASNS[router], ASNS[other])
                self.routers.takes(router, IDS.prefix(IDS.switch(layer, index)), path)


def test_missing_sessions_are_told_after_some_time_with_the_last_reason() -> None:
    world = World()
    for name in NAMES[2:]:
        world.hear(name)
    assert world.look(MISSING_SECONDS / 2) == []
    world.routers.failed("leaf2", "both have the same router id")
    assert world.look(MISSING_SECONDS) == [
        "no BGP session to leaf1 (fd00::1)",
        "no BGP session to leaf2 (fd00::2): both have the same router id",
    ]
    assert world.noticed == 1
    world.hear("leaf1")
    world.hear("leaf2")
    assert (world.look(), world.noticed) == ([], 2)
    assert set(world.routers.cables.values()) == {""}
    world.routers.ended("leaf1")
    assert world.look() == []
    assert world.look(MISSING_SECONDS) == ["no BGP session to leaf1 (fd00::1)"]


def test_many_missing_sessions_are_told_in_few_lines() -> None:
    world = World()
    texts = world.look(MISSING_SECONDS)
    assert len(texts) == MOST_NOTICES + 1
    assert texts[-1] == f"no BGP session to {len(NAMES) - MOST_NOTICES} more"


def test_cables_of_a_router_that_goes_are_down_by_its_neighbours_and_a_plan_is_made_at_once() -> None:
    world = World()
    for name in NAMES:
        world.hear(name)
    world.look()
    assert (len(world.routers.cables), world.news) == (16, [False])
    world.routers.ended("spine1")
    for leaf in NAMES[:4]:
        world.routers.takes(leaf, IDS.prefix(IDS.switch(1, 0)), ())
    world.look()
    down = {FABRIC.cable_names[cable] for cable, reason in world.routers.cables.items() if reason}
    assert down == {f"{leaf}-spine1" for leaf in NAMES[:4]}
    assert world.news == [False, True]


def test_without_a_file_nothing_is_heard_and_nothing_missing() -> None:
    routers = RouterSouthbound(
        IDS,
        None,
        Runtime(),  # type: ignore[arg-type]
        QuietSpeaker,
        changed=lambda failed: None,
        noticed=lambda: None,
    )
    routers.start()
    assert (dict(routers.cables), routers.notices()) == ({}, [])
    routers.close()
