"""The poller against switches that answer late, never, or with nonsense; time is a number here."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import greenlet
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller import ryu_compat

ryu_compat.prepare()

from controller.southbound.openflow.enforcing.request_channel import NotSupported, SwitchGone  # noqa: E402
from controller.telemetry.instruments import Instruments  # noqa: E402
from controller.telemetry.poller import Poller  # noqa: E402
from controller.telemetry.port_rates import Readings  # noqa: E402
from tests.fake_switch.decode import PROTOCOL  # noqa: E402
from tests.fake_switch.ports import Port  # noqa: E402
from tests.fake_switch.switch import FakeSwitch  # noqa: E402


class Hours:
    """A world whose clock jumps to whatever happens next."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int, Any]] = []
        self._numbers = count()
        self._loop = greenlet.getcurrent()

    def clock(self) -> float:
        return self.now

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def rest(self) -> None:
        pass

    def spawn(self, task: Callable[[], None]) -> None:
        heapq.heappush(self._waiting, (self.now, next(self._numbers), greenlet.greenlet(task, self._loop)))

    def sleep(self, seconds: float) -> None:
        heapq.heappush(self._waiting, (self.now + seconds, next(self._numbers), greenlet.getcurrent()))
        self._loop.switch()

    def run(self, until: float) -> None:
        while self._waiting and self._waiting[0][0] <= until:
            self.now, _, task = heapq.heappop(self._waiting)
            task.switch()


class Switch:
    """One connection to a switch that takes so many seconds for an answer."""

    def __init__(self, world: Hours, dpid: int, seconds: float) -> None:
        self.datapath = PROTOCOL
        self.world, self.seconds = world, seconds
        self.switch = FakeSwitch(dpid, f"s{dpid}", [Port(1, "p", "02:00:00:00:00:01", 1.0)])
        self.asked: list[float] = []
        self.outstanding = self.most = 0
        self.fails: Exception | None = None
        self.lacks: tuple[type[Any], ...] = ()
        self.garbled = False

    def ask_raw(self, message: Any) -> list[bytes]:
        if isinstance(message, parser.OFPPortStatsRequest):
            self.asked.append(self.world.now)
        self.outstanding += 1
        self.most = max(self.most, self.outstanding)
        self.world.sleep(self.seconds)
        self.outstanding -= 1
        if self.fails is not None:
            raise self.fails
        if isinstance(message, self.lacks):
            raise NotSupported("the switch refused the request")
        message.xid = 1
        message.serialize()
        parts = list(self.switch.receive(bytes(message.buf)))
        return [part[:-3] for part in parts] if self.garbled else parts


def counted(instruments: Instruments) -> Counter[str]:
    return Counter({s.name: s.value for family in instruments.collect() for s in family.samples if "poll" in s.name})


def polling(world: Hours, switches: dict[int, Switch], period: float) -> tuple[Poller, Readings, Instruments]:
    readings, instruments = Readings(), Instruments()
    poller = Poller(world, lambda: dict(switches), readings, instruments, period=period, name=lambda dpid: f"s{dpid}")  # type: ignore[arg-type]
    poller.start()
    return poller, readings, instruments


@given(
    period=st.floats(0.5, 20),
    slowness=st.dictionaries(st.integers(1, 40), st.floats(0, 30), min_size=1, max_size=12),
)
def test_no_switch_is_asked_twice_at_a_time_and_the_others_do_not_wait_for_it(
    period: float, slowness: dict[int, float]
) -> None:
    world = Hours()
    switches = {dpid: Switch(world, dpid, seconds) for dpid, seconds in slowness.items()}
    _, readings, instruments = polling(world, switches, period)
    rounds = 10
    world.run(rounds * period)
    skipped = counted(instruments)["fairspine_polls_skipped_total"]
    turns = sum(len(switch.asked) for switch in switches.values()) + skipped
    assert rounds * len(switches) <= turns <= (rounds + 1) * len(switches)
    for dpid, switch in switches.items():
        assert switch.most <= 1
        # Ports, flows and groups: it is asked again in its first turn after the three answers.
        taken = 3 * switch.seconds
        least = min(rounds, rounds * period // (taken + period))
        assert len(switch.asked) >= least
        if taken <= 9 * period:
            assert readings.latest(dpid) is not None
    # Spread over the period: never two at the same moment.
    times = sorted(at for switch in switches.values() for at in switch.asked)
    assert all(b - a >= period / len(switches) * 0.99 or len(switches) == 1 for a, b in pairwise(times))


def test_a_switch_that_fails_is_counted_and_asked_again_and_the_others_are_read() -> None:
    world = Hours()
    switches = {dpid: Switch(world, dpid, 0.1) for dpid in (1, 2, 3, 4)}
    switches[1].fails = SwitchGone("no answer within 5 s")
    switches[2].garbled = True
    switches[3].lacks = (parser.OFPGroupStatsRequest, parser.OFPFlowStatsRequest)
    _, readings, instruments = polling(world, switches, 2.0)
    world.run(7.9)
    assert readings.latest(1) is None
    assert readings.latest(2) is None
    for dpid in (3, 4):
        found = readings.latest(dpid)
        assert found is not None
        assert set(found.ports) == {1}
    assert [len(switch.asked) for switch in switches.values()] == [4, 4, 4, 4]
    assert counted(instruments)["fairspine_polls_failed_total"] == 8
    switches[1].fails = None
    world.run(9.9)
    assert readings.latest(1) is not None


def test_a_new_connection_begins_anew_and_an_answer_over_the_old_one_does_not_count() -> None:
    world = Hours()
    switches = {1: Switch(world, 1, 0.4)}
    poller, readings, _ = polling(world, switches, 2.0)
    world.run(3.5)
    assert readings.previous(1) is not None
    # Its next answer is on its way when it reconnects.
    world.run(4.5)
    switches[1] = Switch(world, 1, 0.4)
    poller.forget(1)
    world.run(5.9)
    assert readings.latest(1) is None
    world.run(7.9)
    assert readings.latest(1) is not None
    assert readings.previous(1) is None


def test_nothing_is_asked_where_the_period_is_0_and_nothing_after_the_end() -> None:
    world = Hours()
    switches = {1: Switch(world, 1, 0.0)}
    polling(world, switches, 0.0)
    world.run(100)
    assert switches[1].asked == []
    poller, _, _ = polling(world, switches, 1.0)
    world.run(102.5)
    asked = len(switches[1].asked)
    assert asked >= 2
    poller.stop()
    world.run(200)
    assert len(switches[1].asked) == asked
