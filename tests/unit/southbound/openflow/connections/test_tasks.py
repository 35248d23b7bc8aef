"""Tasks that look after all switches or hosts go on after a mistake in one look."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
import ryu.base.app_manager  # noqa: E402, F401 (before its controller)

from controller.southbound.openflow.connections import connection_timeouts  # noqa: E402
from controller.southbound.openflow.connections.connection_context import ConnectionContext  # noqa: E402
from controller.southbound.openflow.enforcing import verifier as verifier_module  # noqa: E402
from controller.southbound.openflow.enforcing.verifier import (  # noqa: E402
    AGE_SECONDS,
    CLAIMED_SECONDS,
    SwitchFault,
    Verifier,
)
from controller.southbound.openflow.observing import host_finder as hosts  # noqa: E402
from controller.telemetry.instruments import Instruments  # noqa: E402
from controller.telemetry.poller import Poller  # noqa: E402
from controller.telemetry.port_rates import Readings  # noqa: E402


class EndError(BaseException):
    """Ends a task that never ends."""


class Named:
    """A connection, as far as its name goes."""

    def __init__(self, who: str) -> None:
        self.who = who


def sleeping(monkeypatch: pytest.MonkeyPatch, module: Any, times: int) -> None:
    """Sleeps of a module take no time, and the task ends after so many."""
    left = [times]

    def sleep(_seconds: float) -> None:
        left[0] -= 1
        if not left[0]:
            raise EndError

    monkeypatch.setattr(module, "hub", SimpleNamespace(sleep=sleep))


def test_every_connection_is_checked_even_if_one_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))
    watched = connection_timeouts.ConnectionTimeouts(
        ConnectionContext(name=str, changed=lambda: None, clock=lambda: float(next(times)))
    )
    bad, good = Named("bad"), Named("good")
    for connection in (bad, good):
        watched.add(connection)  # type: ignore[arg-type]
    seen: list[str] = []

    def look(connection: Any, _watched: object) -> None:
        seen.append(connection.who)
        if connection is bad:
            raise ZeroDivisionError

    monkeypatch.setattr(watched, "look", look)
    sleeping(monkeypatch, connection_timeouts, 4)
    with pytest.raises(EndError):
        watched._run()
    assert seen == ["bad", "good"] * 3


def test_the_search_for_hosts_goes_on_after_a_look_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = hosts.HostFinder.__new__(hosts.HostFinder)
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) % 2:
            raise KeyError("10.0.0.1")

    monkeypatch.setattr(finder, "_look", look)
    sleeping(monkeypatch, hosts, 7)
    with pytest.raises(EndError):
        finder._run()
    assert len(looks) > 3


class Rounds:
    """A world in which a task runs in place, time passes only in its sleeps, and the task ends at some time."""

    def __init__(self, end: float) -> None:
        self.now, self.end = 0.0, end

    def spawn(self, task: Callable[[], None]) -> None:
        task()

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)
        if self.now > self.end:
            raise EndError

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def rest(self) -> None:
        pass

    def clock(self) -> float:
        return self.now


def test_a_master_of_long_ago_is_no_fault_any_more() -> None:
    fault = SwitchFault(claimed=5.0)
    fault.expire(5.0 + CLAIMED_SECONDS - 1)
    assert fault.contested
    assert fault.reasons("leaf1") == [
        "leaf1: another controller has become its master lately; it may change its rules, too"
    ]
    fault.expire(5.0 + CLAIMED_SECONDS)
    assert (fault.contested, fault.reasons("leaf1")) == (False, [])


def reading_back(world: Rounds, connected: Callable[[], dict[int, Any]]) -> Any:
    switches: Any = SimpleNamespace(sessions=connected)
    return Verifier(world, switches, period=1.0, drifted=lambda *_: None)


def polling(world: Rounds, connected: Callable[[], dict[int, Any]]) -> Any:
    return Poller(world, connected, Readings(), Instruments(), period=1.0, name=hex)


@pytest.mark.parametrize("made", [reading_back, polling])
def test_read_back_and_polling_go_on_after_a_round_and_after_a_switch_that_fail(
    made: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = Rounds(30.5)
    asked = [0]

    def connected() -> dict[int, Any]:
        asked[0] += 1
        if asked[0] % 2:
            raise KeyError("a mistake")
        return {1: SimpleNamespace(size=1, is_read=True), 2: SimpleNamespace(size=1, is_read=True)}

    looks: list[int] = []

    def turn(dpid: int, *_: object) -> None:
        looks.append(dpid)
        if dpid == 1:
            raise ZeroDivisionError

    task = made(world, connected)
    monkeypatch.setattr(task._rounds, "_turn", turn)
    with pytest.raises(EndError):
        task.start()
    assert looks.count(1) >= 10
    assert looks.count(1) - looks.count(2) in (0, 1)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert "a mistake" in texts[0]
    assert "ZeroDivisionError" in texts[1]


@pytest.mark.parametrize(("unread", "expected"), [(0, 20), (2, 20), (3, 0), (20, 0)])
def test_no_switch_is_read_again_while_many_are_not_read_yet(unread: int, expected: int) -> None:
    sessions = {dpid: SimpleNamespace(size=1, is_read=dpid >= unread) for dpid in range(20)}
    verifier = reading_back(Rounds(1.0), lambda: sessions)
    assert len(verifier._begin_round().dpids) == 20
    assert len(verifier._whole) == expected


def test_decoded_rules_that_no_switch_shows_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    aged: list[float] = []
    world = Rounds(10 * AGE_SECONDS + 10)
    monkeypatch.setattr(verifier_module._reader, "age", lambda: aged.append(world.now))
    with pytest.raises(EndError):
        reading_back(world, dict).start()
    assert len(aged) == 10
    assert all(later - earlier < AGE_SECONDS + 10 for earlier, later in zip([0.0, *aged], aged, strict=False))
