"""The port agent: one thread that searches source ports, checks those in use, and reports what it knows."""

from __future__ import annotations

import logging
import os
import select
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from agent.connection.conversation import PlanProvider
from agent.errors import HostAgentError
from agent.plans.saved_files import read_saved, write_saved
from agent.ports.answer_budgets import AnswerBudgets
from agent.ports.answer_times import AnswerTimes
from agent.ports.check_times import CheckTimes
from agent.ports.flow_ports import SourcePorts
from agent.ports.hash_memory import HashMemory
from agent.ports.hop_probes import HopProbeSocket
from agent.ports.linear_hash import HashModels
from agent.ports.port_memory import PortMemory
from agent.ports.port_plan import PortPlan
from agent.ports.port_prober import PortProber
from agent.ports.ports_in_use import PortChange
from agent.tcp.tcp_service import TcpService
from agent.verbs.program_ports import ProgramPorts
from agent.verbs.qp_pages import QpPages
from controller.model.errors import InputError

LOG = logging.getLogger("fairspine.agent")

STEP_SECONDS = 0.2
"""Of a search, until what it has learned is used."""

AGAIN_SECONDS = 1.0
PAGE_SECONDS = 1.0
"""Until the next search where ports are missing, or routers have not answered."""

ACTIVE, UNREACHABLE = "active", "unreachable"


class PortAgent:
    """Follows the plans of one host until it is stopped."""

    def __init__(
        self,
        state: Path,
        interface: str | None,
        report_seconds: float,
        random: Random,
        programs: ProgramPorts | None = None,
        connections: TcpService | None = None,
    ) -> None:
        """Take over what an agent before this one has learned.

        Args:
            state: the folder of what outlives the agent.
            interface: by which probes leave; ``None``: by routes.
            report_seconds: between two reports in which nothing is new.
            random: draws candidates.
            programs: get the ports of flows; ``None``: they read them from the controller.
            connections: gets plans, and gives ports to programs that connect; ``None``: nothing does.

        Raises:
            HostAgentError: the folder cannot be made.
        """
        self._file, self._interface = state / "ports.json", interface
        self._report_seconds, self._random, self._programs = report_seconds, random, programs
        self._connections = connections
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise HostAgentError(f"--state {state}: {error.strerror}", exit_code=2) from None
        self._memory, self._flows, self._hash_memory = self._restored()
        self._plan: PortPlan | None = None
        self._new: deque[PortPlan] = deque()
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._probes: HopProbeSocket | None = None
        self._prober: PortProber | None = None
        self._budgets: AnswerBudgets | None = None
        self._hashes, self._times = HashModels(), AnswerTimes()
        self._source: PlanProvider | None = None
        self._next_check = self._next_report = 0.0
        self._checks = CheckTimes()
        self._state = ""
        self._qps = QpPages()
        self._stopped = False

    def take(self, plan: PortPlan, _document: Any) -> None:
        """Take a new plan; any thread may call this."""
        self._new.append(plan)
        self._wake()

    def stop(self) -> None:
        """End ``run``; a signal handler may call this."""
        self._stopped = True
        self._wake()

    def run(self, source: PlanProvider) -> None:
        """Follow plans until the end.

        Raises:
            HostAgentError: the process may not send probes.
        """
        # A process without the right to probe says so at once.
        HopProbeSocket.check()
        self._source = source
        source.start(None)
        while not self._stopped:
            self._turn()
            self._tell_programs()
        source.close()
        if self._probes is not None:
            self._probes.close()
        if self._programs is not None:
            self._programs.close()
        if self._connections is not None:
            self._connections.close()

    def _tell_programs(self) -> None:
        if self._programs is None or self._plan is None:
            return
        try:
            self._programs.publish(self._plan.task.source, self._flows.by_flow)
        except HostAgentError as error:
            LOG.error("%s", error)
        self._programs.look()
        if self._qps.take(self._programs.report(self._plan.task.source)):
            self._next_report = 0.0

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._waker, b"x")

    def _turn(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._woken, 64):
                pass
        plan = None
        while self._new:
            plan = self._new.popleft()
        if plan is not None:
            self._follow(plan)
        if self._plan is None:
            self._sleep(None)
            return
        now = time.monotonic()
        if not self._is_searching and now < self._next_check:
            self._report_when_due(now)
            self._sleep(min(self._next_check, self._next_report) - now)
            return
        try:
            self._search(self._plan)
        except HostAgentError as error:
            LOG.error("%s", error)
            self._prober = None
            self._next_check = time.monotonic() + AGAIN_SECONDS
        self._report_when_due(time.monotonic())

    @property
    def _is_searching(self) -> bool:
        return self._prober is not None and self._prober.is_searching

    def _sleep(self, seconds: float | None) -> None:
        select.select([self._woken], [], [], None if seconds is None else max(seconds, 0.0))

    def _follow(self, plan: PortPlan) -> None:
        before = self._plan
        if self._prober is not None and self._prober.is_searching:
            self._learn(self._prober, ended=True)
        ends = plan.task.source, plan.task.dst_port
        if self._probes is not None and before is not None and ends != (before.task.source, before.task.dst_port):
            self._probes.close()
            self._probes = None
        if before is None or before.task.budget != plan.task.budget:
            self._budgets = None
        maps = {} if before is None else {pair.dst: pair.map for pair in before.task.pairs}
        if any(maps.get(pair.dst, pair.map) != pair.map for pair in plan.task.pairs):
            # Cables have failed or come back, and routers may still be about to follow.
            self._checks.event()
        self._hashes = self._hash_memory.models({pair.dst: pair.map for pair in plan.task.pairs})
        self._plan, self._prober, self._next_check = plan, None, 0.0
        if self._connections is not None:
            self._connections.follow(plan)
        self._flows.follow(plan)
        self._next_report = 0.0
        LOG.info("epoch %d: ports are wanted for %d flows", plan.epoch, len(plan.flows))
        if plan.connections and self._connections is None:
            LOG.warning("epoch %d has TCP connections, which get no ports without --tcp", plan.epoch)

    def _search(self, plan: PortPlan) -> None:
        """Go on with a search, or begin one."""
        if self._probes is None:
            self._probes = HopProbeSocket(plan.task.source, plan.task.dst_port, self._interface)
        prober = self._prober
        if prober is None:
            task = self._memory.asked(plan.task, self._flows.in_use)
            prober = self._prober = PortProber(
                task, self._random, self._probes, self._budgets, self._hashes, self._times
            )
            self._budgets = prober.budgets
        if not prober.is_searching:
            prober.begin()
        ended = prober.step(STEP_SECONDS, self._woken)
        self._learn(prober, ended=ended)
        if ended:
            self._settle(plan, prober.changes)

    def _learn(self, prober: PortProber, *, ended: bool) -> None:
        pairs = prober.end() if ended else prober.so_far()
        for change in prober.changes:
            LOG.warning("%s", change.line())
        if ended:
            self._flows.count(pairs)
        self._memory.take(pairs)
        if self._flows.learn(pairs, prober.in_use.by_dst):
            self._next_report = 0.0

    def _settle(self, plan: PortPlan, changes: list[PortChange]) -> None:
        """Find out what comes after a search that has ended."""
        now = time.monotonic()
        state = self._flows.state(self._memory, now)
        usual = plan.check_seconds if state in (ACTIVE, UNREACHABLE) else AGAIN_SECONDS
        if changes:
            # Other ports may be about to lead elsewhere.
            self._checks.event()
        self._next_check = now + self._checks.wait(usual)
        if state == UNREACHABLE:
            # Paths without a port are not searched again, until the routers hash otherwise.
            self._prober = None
        with suppress(HostAgentError):
            hashes = self._hash_memory.document()
            write_saved(self._file, {**self._memory.document(), "flows": self._flows.saved(), "hashes": hashes})

    def _report_when_due(self, now: float) -> None:
        assert self._plan is not None
        assert self._source is not None
        state = self._flows.state(self._memory, now)
        if state != self._state:
            LOG.info("epoch %d: the source ports are %s", self._plan.epoch, state)
            self._state, self._next_report = state, 0.0
        if now >= self._next_report:
            report = self._flows.report(self._memory, now, self._hashes.kind, self._qps.next())
            least = PAGE_SECONDS if self._qps.lacks else self._report_seconds
            self._next_report = now + max(least, self._plan.report_seconds)
            self._source.report(report)

    def _restored(self) -> tuple[PortMemory, SourcePorts, HashMemory]:
        flows = SourcePorts()
        document = read_saved(self._file)
        try:
            memory = PortMemory.read(document)
            flows.restore(document["flows"])
            # An agent of an earlier version has saved none.
            hashes = HashMemory.read(document.get("hashes", []))
        except (InputError, KeyError):
            return PortMemory(), SourcePorts(), HashMemory()
        return memory, flows, hashes
