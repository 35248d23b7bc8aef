"""The agent: one thread that sets the kernel, hears of lost packets, sends probes, and moves flows off dead paths."""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from agent.bypass_probes import BypassProbes
from agent.connection.controller_connection import WAIT_SECONDS
from agent.connection.conversation import PlanProvider
from agent.errors import HostAgentError
from agent.linux.host_settings import HostSettings
from agent.linux.kernel import Counts, Kernel, explained
from agent.linux.kernel_state import KernelChanges, KernelState, StateMaker, changes
from agent.linux.nic_counters import NicCounts, nic_counters
from agent.linux.pacer import PaceKeeper, Pacing
from agent.linux.probing import ProbeSocket
from agent.linux.unreachable import UnreachableSocket
from agent.path_health import PathHealth
from agent.plans.host_plan import HostPlan, PathChoice
from agent.plans.saved_files import SavedFiles
from agent.reports import FlowTotals, report

LOG = logging.getLogger("fairspine.agent")

MOST_PROBES_A_SECOND = 1000
ROUNDS = 5
"""Of this number of rounds of probes, one has those of single cables, too."""
BYPASS_SECONDS = 2.5
"""Between two bypass probes: switches answer each by a message (ICMPv6), of which they send few."""
FOLLOW_UP_ROUNDS = 30
"""Rounds of probes after paths have died, until what is known of the others is reported."""
CHECK_SHARE = 0.02
"""Reading back takes at most this share of the time."""
TRY_AGAIN_SECONDS = 1.0
JUDGE_SECONDS = 0.01
_RTMGRP_LINK = 1


@dataclass(frozen=True)
class Intervals:
    """In seconds: between probes of a path (0: no probes), and between reports."""

    probe: float
    report: float


class HostAgent:
    """Follows the plans of one host until it is stopped."""

    def __init__(
        self, kernel: Kernel, settings: HostSettings, files: SavedFiles, intervals: Intervals, pacer: PaceKeeper
    ) -> None:
        """Take over what the kernel holds.

        Raises:
            HostAgentError: the machine lacks what is needed.
        """
        self._kernel, self._settings, self._files, self._intervals = kernel, settings, files, intervals
        self._pacer, self._pacing = pacer, Pacing(0, 0, 0)
        try:
            self._unreachable = UnreachableSocket()
            settings.accept_segments()
            files.save_settings(settings.before)
            kernel.prepare()
            self._held = kernel.held()[0]
        except OSError as error:
            raise explained(error) from None
        self._maker = StateMaker(by_flow=kernel.by_flow, held=self._held)
        self._health, self._totals = PathHealth(), FlowTotals()
        self._bypasses, self._next_bypasses = BypassProbes(), 0.0
        self._plan: HostPlan | None = None
        self._confirmed: tuple[int, str] | None = None
        self._probes: ProbeSocket | None = None
        self._new: deque[tuple[HostPlan, Any]] = deque()
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._links = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self._links.bind((0, _RTMGRP_LINK))
        for each in (self._unreachable.socket, self._woken, self._links):
            self._selector.register(each, selectors.EVENT_READ)
        self._stopped = False
        self._source: PlanProvider | None = None
        self._counters: NicCounts | None = None
        self._next_probes = self._next_check = self._next_report = 0.0
        self._reported: tuple[int, str] | None = None
        self._round = 0
        self._rare: frozenset[IPv6Address | None] = frozenset()

    def take(self, plan: HostPlan, document: Any) -> None:
        """Take a new plan; any thread may call this."""
        self._new.append((plan, document))
        self.wake()

    def stop(self) -> None:
        """End ``run``; a signal handler may call this."""
        self._stopped = True
        self.wake()

    def wake(self) -> None:
        """Make the thread of ``run`` look what is new."""
        with suppress(BlockingIOError):
            os.write(self._waker, b"x")

    def run(self, source: PlanProvider, saved: HostPlan | None) -> None:
        """Follow plans until the end. ``saved``: the plan of an agent before this one."""
        self._source = source
        if saved is not None:
            self._follow(saved)
        source.start(saved.id if saved is not None else None)
        while not self._stopped:
            self._selector.select(self._seconds_to_wait(time.monotonic()))
            self._turn()
        source.close()

    def remove(self) -> None:
        """Remove all that was set."""
        try:
            self._pacer.remove()
            self._kernel.remove()
        except OSError as error:
            raise explained(error) from None
        self._settings.restore()
        self._files.remove()

    def _turn(self) -> None:
        # What has arrived before this time is read before paths are judged by it.
        now = time.monotonic()
        moved, news = self._hear(now), False
        if self._probes is not None:
            for answer in self._probes.read():
                news |= self._bypasses.answered(answer.probe)
                self._health.answered(answer.probe, answer.number, answer.at)
        moved |= self._health.judge(now)
        news |= self._bypasses.judge(now, self._health.came_back)
        if moved:
            self._move()
        elif news:
            self._report({}, complete=False)
        with suppress(BlockingIOError):
            while os.read(self._woken, 64):
                pass
        if self._new:
            self._take_new()
        if self._link_changed() and self._plan is not None:
            self._next_check = now
        if self._probes is not None and self._intervals.probe and now >= self._next_probes:
            self._send_probes(now)
        if self._plan is not None and now >= self._next_check:
            self._check()

    def _take_new(self) -> None:
        """Follow the newest plan, and save it, with those of whose changes it consists."""
        new = [self._new.popleft() for _ in range(len(self._new))]
        self._follow(new[-1][0])
        whole = max((number for number, (plan, _) in enumerate(new) if plan.changes is None), default=0)
        for _, document in new[whole:]:
            with _logged():
                self._files.save_plan(document)

    def _seconds_to_wait(self, now: float) -> float | None:
        if self._plan is None:
            return None
        until = self._next_check
        if self._probes is not None and self._intervals.probe and self._health.probes:
            until = min(until, self._next_probes, *((now + JUDGE_SECONDS,) if self._health.waits else ()))
        elif self._health.dead:
            until = min(until, now + TRY_AGAIN_SECONDS)
        return max(until - now, 0.0)

    def _hear(self, now: float) -> bool:
        news = False
        for message in self._unreachable.read():
            carrier = self._maker.carrier_of(message.quoted)
            if carrier is not None and self._plan is not None and message.source == self._plan.source:
                news |= self._health.unreachable(carrier, now, message.at)
        return news

    def _move(self) -> None:
        """Make flows leave dead paths, and take those again that live again."""
        if self._plan is None:
            return
        self._apply(self._maker.moved(self._held, self._plan, self._health.live))
        LOG.info("paths have changed: %d dead", len(self._health.dead))
        self._report({}, complete=False)
        # What probes of other paths say from now on shows which cable is at fault.
        self._next_report = 0.0
        soon = max(TRY_AGAIN_SECONDS, FOLLOW_UP_ROUNDS * self._seconds_per_round())
        self._next_check = min(self._next_check, time.monotonic() + soon)

    def _follow(self, plan: HostPlan) -> None:
        """Make the kernel follow a plan."""
        first = time.monotonic()
        try:
            self._send_from(plan.source)
        except HostAgentError as error:
            LOG.error("epoch %d: %s", plan.epoch, error)
            return
        before, self._plan = self._plan, plan
        step = None if before is None else self._maker.step(self._held, before, plan, self._health.live)
        if step is not None and before is not None:
            self._follow_changes(before, plan, *step)
        else:
            choices = plan.choices
            self._health.forget({carrier for choice in choices for carrier in choice.carriers} | {*plan.probes})
            self._watch(plan, choices)
            self._confirmed = None
            self._apply(self._maker.state(plan, self._health.live))
            self._keep_paces(plan)
            self._check()
        number = len(plan.flows if step is None or plan.changes is None else plan.changes.keys)
        LOG.info("epoch %d: %d flows set in %.0f ms", plan.epoch, number, 1e3 * (time.monotonic() - first))

    def _follow_changes(self, before: HostPlan, plan: HostPlan, state: KernelState, changes: KernelChanges) -> None:
        """Make the kernel hold what has changed, read that back, and confirm the plan if the one before was held."""
        self._health.forget(self._maker.carriers)
        if changes.set_carriers or changes.del_carriers or changes.slots:
            self._watch(plan, self._maker.choices)
        self._bypasses.watch(plan.bypass_probes)
        was_held, self._confirmed, self._held = self._confirmed == before.id, None, state
        try:
            if changes:
                self._kernel.change(changes)
            is_held = was_held and self._kernel.has_made(changes)
        except OSError as error:
            LOG.error("%s", explained(error))
            is_held = False
        if plan.paces is not before.paces:
            self._keep_paces(plan)
        if not is_held:
            self._check()
            return
        self._confirmed = self._reported = plan.id
        self._report({}, complete=False)

    def _watch(self, plan: HostPlan, choices: Collection[PathChoice]) -> None:
        """Probe the paths of a plan."""
        self._health.watch({probe: {probe} for probe in plan.probes} | _probed(choices))
        self._bypasses.watch(plan.bypass_probes)
        self._rare = frozenset(plan.probes) - {probe for choice in choices for probe, _ in choice.probes}

    def _send_from(self, source: IPv6Address) -> None:
        if self._probes is None or self._probes.source != source:
            probes = ProbeSocket(source)
            if self._probes is not None:
                self._selector.unregister(self._probes.socket)
                self._probes.close()
            self._probes = probes
            self._selector.register(probes.socket, selectors.EVENT_READ)
        self._settings.send_from(source)
        self._files.save_settings(self._settings.before)

    def _apply(self, state: KernelState) -> None:
        """Make the kernel hold a state; what it refuses is tried again by ``_check``."""
        difference = changes(self._held, state)
        self._held = state
        try:
            if difference:
                self._kernel.change(difference)
        except OSError as error:
            LOG.error("%s", explained(error))
            self._next_check = time.monotonic() + TRY_AGAIN_SECONDS

    def _keep_paces(self, plan: HostPlan) -> None:
        """Make the kernel pace the flows of a plan, and repair it."""
        pacing = self._pacer.follow(plan.paces)
        if pacing.reason and pacing.reason != self._pacing.reason:
            LOG.warning(
                "%d of %d flows are not paced: %s", pacing.planned - pacing.paced, pacing.planned, pacing.reason
            )
        self._pacing = pacing

    def _check(self) -> None:
        """Compare what the kernel holds with what it should, repair it, and report."""
        if self._plan is None:
            return
        first = time.monotonic()
        counts: dict[bytes, Counts] = {}
        with _logged():
            try:
                held, counts = self._kernel.held()
                if difference := changes(held, self._held):
                    LOG.warning("the kernel holds something else than was set: set again")
                    self._kernel.change(difference)
                    held, counts = self._kernel.held()
                self._confirmed = None if changes(held, self._held) else self._plan.id
            except OSError as error:
                self._confirmed = None
                if error.errno == errno.ENOENT:
                    # The table of nftables was removed.
                    self._kernel.prepare()
                raise explained(error) from None
        self._keep_paces(self._plan)
        now = time.monotonic()
        soon = self._intervals.report if self._confirmed is not None else TRY_AGAIN_SECONDS
        self._next_check = now + max(soon, (now - first) / CHECK_SHARE)
        if now < self._next_report and self._confirmed == self._reported:
            return
        # On a large fabric, a report without news comes with the next request for a plan.
        seconds = self._plan.report_seconds
        routine = self._confirmed == self._reported and self._next_report > 0 and seconds > self._intervals.report
        self._next_report = now + (max(seconds, WAIT_SECONDS) if seconds > self._intervals.report else seconds)
        self._reported = self._confirmed
        self._counters = nic_counters(self._settings.interface)
        self._report(counts, complete=True, routine=routine)

    def _report(self, counts: dict[bytes, Counts], *, complete: bool, routine: bool = False) -> None:
        if self._plan is None or self._source is None:
            return
        self._source.report(
            report(
                self._confirmed,
                self._plan,
                self._health.dead,
                self._totals.update(counts) if complete else {},
                self._health.round_trips(),
                self._health.live,
                time.monotonic(),
                self._counters,
                self._pacing,
                self._bypasses.known,
            ),
            routine=routine,
        )

    def _send_probes(self, now: float) -> None:
        assert self._probes is not None
        self._round = (self._round + 1) % ROUNDS
        rare = () if self._round == 0 else self._rare
        for probe in self._health.probes:
            if probe in rare:
                continue
            # A router says where a probe of single cables was lost; one of a flow may have been on its way back.
            to = self._maker.tagged(probe) if probe in self._rare else probe
            if (sent := self._probes.send(probe, to)) is not None:
                self._health.sent(probe, *sent)
        if now >= self._next_bypasses:
            self._next_bypasses = now + BYPASS_SECONDS
            for probe in self._bypasses.probes:
                if (sent := self._probes.send(probe, probe)) is not None:
                    self._bypasses.sent(probe, *sent)
        self._next_probes = now + self._seconds_per_round()

    def _seconds_per_round(self) -> float:
        rare = len(self._rare)
        many = len(self._health.probes) - rare + rare / ROUNDS
        return max(self._intervals.probe, many / MOST_PROBES_A_SECOND)

    def _link_changed(self) -> bool:
        """Return whether some interface has changed since the last call: routes go away with it."""
        changed = False
        while True:
            try:
                changed |= bool(self._links.recv(1 << 16))
            except BlockingIOError:
                return changed
            except OSError:
                # There were more messages than the socket holds.
                changed = True


def _probed(choices: Iterable[PathChoice]) -> dict[IPv6Address, set[IPv6Address]]:
    probes: dict[IPv6Address, set[IPv6Address]] = {}
    for choice in choices:
        for probe, carrier in choice.probes:
            probes.setdefault(probe, set()).add(carrier)
    return probes


@contextmanager
def _logged() -> Iterator[None]:
    """Log an error of the agent, and go on."""
    try:
        yield
    except HostAgentError as error:
        LOG.error("%s", error)
