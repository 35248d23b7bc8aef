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

from agent.connection.controller_connection import ControllerConnection
from agent.connection.conversation import PlanProvider
from agent.errors import HostAgentError
from agent.plans.flow_keys import Address
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
from agent.ports.probe_task import ProbeTask
from agent.ports.sample_prober import SampledPorts, SampleProber, part_of
from agent.ports.sample_reader import SampleReader
from agent.tcp.tcp_service import TcpService
from agent.verbs.program_ports import ProgramPorts
from agent.verbs.qp_pages import QpPages
from controller.model.errors import InputError

LOG = logging.getLogger("fairspine.agent")

STEP_SECONDS = 0.2
"""Of a search, until what it has learned is used."""

AGAIN_SECONDS = 1.0
"""Until the next search where ports are missing, or routers have not answered."""

PAGE_SECONDS = 1.0
"""Between two reports while some of the open QPs are not told yet, at least."""

UNSEEN_AGAIN_SECONDS = 60.0
"""Until the next search by samples where none have come: each takes thousands of packets."""

ACTIVE, UNREACHABLE, DRIFTED = "active", "unreachable", "drifted"


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
        samples: ControllerConnection | None = None,
    ) -> None:
        """Take over what an agent before this one has learned.

        Args:
            state: the folder of what outlives the agent.
            interface: by which probes leave; ``None``: by routes.
            report_seconds: between two reports in which nothing is new.
            random: draws candidates.
            programs: get the ports of flows; ``None``: they read them from the controller.
            connections: gets plans, and gives ports to programs that connect; ``None``: nothing does.
            samples: asked for packets that routers have sampled, where they answer no probes; ``None``: nothing is.

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
        self._sampler: SampleProber | None = None
        self._sampled = SampledPorts()
        self._samples = None if samples is None else SampleReader(samples, self._wake)
        self._budgets: AnswerBudgets | None = None
        self._hashes, self._times = HashModels(), AnswerTimes()
        self._source: PlanProvider | None = None
        self._next_check = self._next_report = 0.0
        self._checks = CheckTimes()
        self._state = ""
        self._qps = QpPages()
        self._changed = self._stopped = False

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
        if self._samples is not None:
            self._samples.close()

    def _tell_programs(self) -> None:
        if self._programs is None or self._plan is None:
            return
        try:
            self._programs.publish(self._plan.task.source, self._flows.by_flow, self._flows.paces)
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
        self._take_samples()
        now = time.monotonic()
        if not self._is_searching and now < self._next_check:
            self._report_when_due(now)
            self._sleep(min(self._next_check, self._next_report) - now)
            return
        try:
            self._search(self._plan)
        except HostAgentError as error:
            LOG.error("%s", error)
            self._prober = self._sampler = None
            self._next_check = time.monotonic() + AGAIN_SECONDS
        self._report_when_due(time.monotonic())

    @property
    def _is_searching(self) -> bool:
        return any(each is not None and each.is_searching for each in (self._prober, self._sampler))

    def _take_samples(self) -> None:
        """Take what routers have sampled; a port that leads elsewhere is checked at once."""
        for samples in () if self._samples is None else self._samples.take():
            self._sampled.take(samples)
            if self._sampler is not None:
                self._sampler.take(samples)
            if any(
                self._sampled.contradicts(dst, port, path)
                for dst, ports in ({} if self._sampler is None else self._sampler.in_use.by_dst).items()
                for port, path in ports.items()
            ):
                self._next_check = 0.0

    def _sleep(self, seconds: float | None) -> None:
        select.select([self._woken], [], [], None if seconds is None else max(seconds, 0.0))

    def _follow(self, plan: PortPlan) -> None:
        before = self._plan
        for each in (self._prober, self._sampler):
            if each is not None and each.is_searching:
                self._learn(each, ended=True)
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
        self._plan, self._next_check = plan, 0.0
        self._prober = self._sampler = None
        self._sampled.follow(plan, time.monotonic())
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
            now = time.monotonic()
            task = self._asked(plan)
            answering = frozenset(pair.dst for pair in task.pairs if not self._are_sampled(plan, pair.dst, now))
            prober = self._prober = PortProber(
                part_of(task, answering), self._random, self._probes, self._budgets, self._hashes, self._times
            )
            self._budgets = prober.budgets
        if self._sampler is None or not self._sampler.is_searching:
            if not prober.is_searching:
                prober.begin()
            ended = prober.step(STEP_SECONDS, self._woken)
            self._learn(prober, ended=ended)
            if not ended:
                return
            self._changed = bool(prober.changes)
            self._begin_sampling(plan, prober)
        if self._sampler is not None and self._sampler.is_searching:
            ended = self._sampler.step(STEP_SECONDS, self._woken)
            self._learn(self._sampler, ended=ended)
            if not ended:
                return
            self._changed |= bool(self._sampler.changes)
        self._settle(plan)

    def _asked(self, plan: PortPlan) -> ProbeTask:
        """Return what is to be probed of a plan, with what is known."""
        return plan.task if plan.task.given else self._memory.asked(plan.task, self._flows.in_use)

    def _are_sampled(self, plan: PortPlan, dst: Address, now: float) -> bool:
        """Return whether samples show the paths to a destination, and no answers to probes do."""
        return plan.sampled_rate is not None and self._samples is not None and self._sampled.is_silent(dst, now)

    def _begin_sampling(self, plan: PortPlan, prober: PortProber) -> None:
        """Begin a search by samples to destinations on the way to which routers have answered no probes."""
        if plan.sampled_rate is None or self._samples is None:
            return
        assert self._probes is not None
        now = time.monotonic()
        new = [pair.dst for pair in self._flows.searched if pair.state == "silent" and pair.evidence == "icmp"]
        for dst in new:
            self._sampled.note_silent(dst, now)
        sampled = frozenset(pair.dst for pair in plan.task.pairs if self._sampled.is_silent(pair.dst, now))
        if not sampled:
            return
        self._samples.start()
        if new:
            # The next search by answers is without these.
            self._prober = None
        if self._sampler is None or new:
            task = part_of(self._asked(plan), sampled)
            self._sampler = SampleProber(task, self._random, self._probes, self._sampled, plan.sampled_rate)
        every = self._sampled.check_seconds(plan, plan.sampled_rate)
        self._flows.checked_every(every)
        self._sampler.begin(every)

    def _learn(self, prober: PortProber | SampleProber, *, ended: bool) -> None:
        pairs = prober.end() if ended else prober.so_far()
        for change in prober.changes:
            LOG.warning("%s", change.line())
        if ended:
            self._flows.count(pairs)
        self._memory.take(pairs)
        in_use = {
            dst: ports for each in (self._prober, self._sampler) if each for dst, ports in each.in_use.by_dst.items()
        }
        if self._flows.learn(pairs, {**in_use, **prober.in_use.by_dst}):
            self._next_report = 0.0

    def _settle(self, plan: PortPlan) -> None:
        """Find out what comes after a search that has ended."""
        now = time.monotonic()
        state = self._flows.state(self._memory, now)
        every = plan.check_seconds
        if self._sampler is not None and plan.sampled_rate is not None:
            # How many packets are one sample is known only now.
            every = self._sampled.check_seconds(plan, plan.sampled_rate)
            self._flows.checked_every(every)
        # A port that the plan gives cannot be replaced, so nothing is searched.
        seen = state in (ACTIVE, UNREACHABLE) or (plan.task.given and state == DRIFTED)
        usual = every if seen else AGAIN_SECONDS
        if any(pair.state == "silent" and pair.evidence == "samples" for pair in self._flows.searched):
            usual = UNSEEN_AGAIN_SECONDS
        if self._changed:
            # Other ports may be about to lead elsewhere.
            self._checks.event()
        self._next_check = now + self._checks.wait(usual)
        if state == UNREACHABLE:
            # Paths without a port are not searched again, until the routers hash otherwise.
            self._prober = self._sampler = None
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
