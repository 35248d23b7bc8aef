"""When a refused target is tried again, and what becomes of refusals that come together."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
from ryu.lib import hub  # noqa: E402

from controller.southbound.limits.switch_names import SwitchNames  # noqa: E402
from controller.southbound.openflow.enforcing import installer as module  # noqa: E402
from controller.southbound.openflow.enforcing.installer import RETRY_LAST, SIGN_SECONDS, Installer  # noqa: E402
from controller.southbound.rollout.desired_rules import DesiredRules, Fallback  # noqa: E402
from controller.southbound.rollout.rollout import OpenFlowRefusal, Rollout  # noqa: E402
from controller.southbound.rules.priorities import FLOW  # noqa: E402
from controller.southbound.rules.rule import Output, Rule, match  # noqa: E402
from controller.southbound.rules.rule_set import RuleSet, SwitchRules  # noqa: E402


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """Time that a test moves, and timers."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, int, Timer, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self.offloaded: Callable[..., Any] = lambda function, *args: function(*args)

    def spawn_after(self, seconds: float, task: Callable[..., object], *args: Any) -> Timer:
        timer = Timer()
        heapq.heappush(self.timers, (self.now + seconds, next(self._numbers), timer, task, args))
        return timer

    def spawn(self, task: Callable[..., object], *args: Any) -> Timer:
        return self.spawn_after(0.0, task, *args)

    def as_hub(self) -> Any:
        return SimpleNamespace(spawn=self.spawn, spawn_after=self.spawn_after, Semaphore=hub.Semaphore)

    def until(self, moment: float) -> None:
        while self.timers and self.timers[0][0] <= moment:
            at, _, timer, task, args = heapq.heappop(self.timers)
            self.now = max(self.now, at)
            if not timer.cancelled:
                task(*args)
        self.now = moment


PLANNED = Rule(0, FLOW, match(eth_type=0x800), (Output(1),))


def target(epoch: int = 1) -> DesiredRules:
    rules = {dpid: SwitchRules({PLANNED.key: PLANNED}, {}) for dpid in (1, 2)}
    return DesiredRules(RuleSet(rules), epoch, {1: "leaf1", 2: "leaf2"})


def refusal(dpid: int = 1, epoch: int = 1) -> OpenFlowRefusal:
    return OpenFlowRefusal(epoch, None, dpid, f"leaf{dpid}", "table full", 0, 0, 1, "full")


class Tried:
    """An installer whose target switch 1 refuses as soon as it gets it.

    Attributes:
        at: when all switches were given the whole target.
    """

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "hub", world.as_hub())
        self.world, self.at = world, list[float]()
        self.installer = Installer(
            lambda *args: world.offloaded(*args),
            names=SwitchNames(),
            settled=lambda: None,
            was_read=lambda *_: None,
            clock=lambda: world.now,
        )
        begin = self.installer._begin

        def began(rollout: Rollout) -> None:
            begin(rollout)
            if rollout.whole:
                self.at.append(world.now)
                world.spawn_after(0.001, self.installer.go_back, rollout, refusal())

        monkeypatch.setattr(self.installer, "_begin", began)


@pytest.mark.parametrize("sign", ["may_have_room", "ports_changed"])
def test_signs_without_end_from_a_switch_that_refuses_give_all_others_the_target_a_few_times_a_minute(
    monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    world = World()
    tried = Tried(world, monkeypatch)
    datapath: Any = SimpleNamespace(id=1)
    tried.installer._sessions[1] = SimpleNamespace(  # type: ignore[assignment]
        exchange=SimpleNamespace(datapath=datapath), wake=lambda: None, state=SimpleNamespace(error=""), arrived=None
    )
    tried.installer.target(target())
    minutes = 10
    began = world.now
    for step in range(minutes * 600):
        world.until(began + step / 10)
        if sign == "may_have_room":
            tried.installer.may_have_room(1)
        else:
            tried.installer.ports_changed(datapath)
    # After each reset of the back-off: 1, 2, 4 ... seconds.
    assert minutes <= len(tried.at) <= minutes * 8


def test_the_first_sign_is_acted_upon_at_once_and_so_is_one_a_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    tried = Tried(world, monkeypatch)
    tried.installer.target(target())
    world.until(world.now + 10 * RETRY_LAST)
    for _ in range(2):
        left = tried.installer.next_try
        assert left is not None
        if left <= 2:
            world.until(world.now + left + 1)
        before = len(tried.at)
        tried.installer.may_have_room(2)
        world.until(world.now + 0.01)
        assert len(tried.at) == before
        tried.installer.may_have_room(1)
        world.until(world.now + 0.01)
        assert len(tried.at) == before + 1
        world.until(world.now + SIGN_SECONDS + RETRY_LAST)


def slow_installer(made: list[object]) -> Installer:
    """One for which others have their turn while work is offloaded; what is offloaded is written down."""

    def offload(function: Callable[..., Any], *args: Any) -> Any:
        made.append(function)
        hub.sleep(0.01)
        return function(*args)

    return Installer(offload, names=SwitchNames(), settled=lambda: None, was_read=lambda *_: None)


def test_of_switches_that_refuse_a_target_together_none_undoes_what_was_done_for_another() -> None:
    made: list[object] = []
    installer = slow_installer(made)
    installer.target(target())
    whole = installer.rollout
    assert whole is not None
    waiting = [hub.spawn(installer.go_back, whole, refusal(dpid)) for dpid in (1, 2)]
    assert [each.wait() for each in waiting] == [True, True]
    assert len(made) == installer.refusals == 1
    first = installer.rollout
    assert first is not None
    assert first.bare == {1}
    # The second one refuses what came of it, too.
    assert installer.go_back(first, refusal(2))
    assert installer.rollout is not None
    assert installer.rollout.bare == {1, 2}
    installer.close()


def test_a_fall_back_that_is_made_too_late_does_not_replace_the_target_that_is_tried_meanwhile() -> None:
    installer = slow_installer([])
    installer.target(target())
    whole = installer.rollout
    assert whole is not None
    waiting = hub.spawn(installer.go_back, whole, refusal())
    hub.sleep(0)
    installer._try_whole()
    again = installer.rollout
    assert waiting.wait() is True
    assert installer.rollout is again is not whole
    installer.close()


def test_a_target_for_which_no_fall_back_can_be_made_is_tried_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    tried = Tried(world, monkeypatch)
    installer = tried.installer
    installer.target(target(1))
    world.until(world.now + 0.01)
    before = len(tried.at)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Fallback, "rules", fail)
    newer = target(2)
    installer.target(newer)
    world.until(world.now + 0.5)
    assert len(tried.at) == before
    assert installer.next_try is not None
    monkeypatch.undo()
    monkeypatch.setattr(module, "hub", world.as_hub())
    world.until(world.now + 1.0)
    assert installer.rollout is not None
    assert installer.rollout.epoch == 2


# -- switches that say nothing ---------------------------------------------------------------------------------------


class Connected:
    """A session as the installer sees it: its switch confirms rules, or says nothing."""

    def __init__(self, installer: Installer, dpid: int) -> None:
        self.installer = installer
        self.exchange = SimpleNamespace(datapath=SimpleNamespace(id=dpid, intended=True))
        self.state = SimpleNamespace(dpid=dpid, error="")
        self.arrived: Rollout | None = None
        installer._sessions[dpid] = self  # type: ignore[assignment]

    def confirm(self) -> None:
        rollout = self.installer.rollout
        assert rollout is not None
        self.arrived = rollout
        rollout.leave(self.state.dpid)
        self.installer.heard(self.state.dpid)

    def end(self) -> None:
        self.installer.disconnected(self.state.dpid)

    def wake(self) -> None:
        pass

    def stop(self) -> None:
        pass


def waited_for(installer: Installer, epoch: int) -> set[int]:
    """Give all switches a new target; those that the others wait for."""
    installer.target(target(epoch))
    assert installer.rollout is not None
    return set(installer.rollout.waits_for)


def test_no_switch_waits_for_one_that_connects_anew_and_confirms_nothing() -> None:
    installer = slow_installer([])
    honest = Connected(installer, 1)
    assert waited_for(installer, 1) == {1}
    honest.confirm()
    mute = Connected(installer, 2)
    assert waited_for(installer, 2) == {1, 2}
    mute.end()
    honest.confirm()
    for epoch in range(3, 6):
        again = Connected(installer, 2)
        assert waited_for(installer, epoch) == {1}
        honest.confirm()
        again.end()
    # As soon as it has taken its rules, they wait for it again.
    back = Connected(installer, 2)
    assert waited_for(installer, 6) == {1}
    honest.confirm()
    back.confirm()
    assert waited_for(installer, 7) == {1, 2}


def test_no_switch_waits_any_longer_for_one_that_does_not_say_what_it_holds() -> None:
    installer = slow_installer([])
    honest, mute = Connected(installer, 1), Connected(installer, 2)
    assert waited_for(installer, 1) == {1, 2}
    installer.silent(mute)  # type: ignore[arg-type]
    assert installer.rollout is not None
    assert installer.rollout.waits_for == {1}
    honest.confirm()
    assert waited_for(installer, 2) == {1}


def test_switches_outside_the_fabric_leave_nothing_behind() -> None:
    installer = slow_installer([])
    installer.target(target())
    for dpid in range(100, 200):
        Connected(installer, dpid).end()
    assert not installer._silent
