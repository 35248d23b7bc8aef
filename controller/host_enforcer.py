"""Plans that agents on hosts carry out: they ask for them, and confirm what the kernels of their hosts hold."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.core.errors import ConflictError
from controller.core.ports.enforcer import AgentCounts, CompiledPlan, EnforcerCounts, Refusal, Target
from controller.core.ports.host_agents import AgentHas, AgentState, HostAnswer, HostAnswers, HostReport
from controller.core.ports.runtime import Runtime, Signal
from controller.host_confirmations import Confirmations, RouterReport
from controller.host_documents import NONE_KNOWN, HostDocument, HostDocuments, known_plans
from controller.host_ports import HostPorts
from controller.host_qps import HostQps
from controller.host_samples import HostSamples
from controller.learning.sampling.seen_flows import SeenFlows
from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric, Switch
from controller.model.network_state import PortlessPath
from controller.model.switch_key import SwitchKey
from controller.southbound.bgp.cable_verdicts import CableVerdicts
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS, HostForm, HostPlans
from controller.southbound.enforcement.learned_ports import LearnedPorts
from controller.southbound.rollout.drift import Deviation

SILENT_SECONDS = 20.0
"""Time without a request or report after which an agent counts as silent: twice that between two reports."""

LOOK_SECONDS = 2.0
"""Between two looks for agents that have become silent."""

GONE_SECONDS = 8.0
"""Between two looks whether an agent that waits for a plan has disconnected: thousands may wait."""


@dataclass
class _Agent:
    """An agent that was heard.

    Attributes:
        silent: it has not been heard for some time, and this was told.
        has: digest of the plan that it has by its last request, or that it was given since; empty: it has none;
            ``None``: it has not asked.
    """

    heard: float
    report: HostReport | None = None
    silent: bool = False
    has: str | None = None


class HostEnforcer:
    """A ``controller.core.ports.enforcer.Enforcer`` and ``HostAgents``: agents follow plans on a fabric of routers.

    On a fabric of OpenFlow switches it is a part of ``joint_enforcer.JointEnforcer``. A router holds a plan when the
    agents of all its hosts that take part in it have confirmed it. What agents have confirmed to an earlier run of the
    controller is not known until they report again.
    """

    def __init__(
        self,
        compiler: HostCompiler,
        runtime: Runtime,
        intended: Fabric,
        *,
        by_hosts: bool,
        verdicts: CableVerdicts,
        paths_changed: Callable[[], None] = lambda: None,
        switches_changed: Signal | None = None,
    ) -> None:
        """Begin without a plan.

        Args:
            compiler: makes the plans of hosts.
            runtime: tasks, waiting and time.
            intended: the fabric of the file.
            by_hosts: whether the first enforcement is one that hosts carry out.
            verdicts: on cables; they get what agents report.
            paths_changed: called when ``portless`` has changed.
            switches_changed: set when a host has confirmed or lost a plan; ``None``: a signal of its own.
        """
        self.compiler, self._runtime, self._intended = compiler, runtime, intended
        self.switches_changed = runtime.signal() if switches_changed is None else switches_changed
        self._new_plan = runtime.signal()
        # Another run may count as far: its versions must not be taken for those of this one.
        self._run, self._wakes = secrets.token_hex(8), 0
        self._documents, self._confirmed = HostDocuments(runtime), Confirmations()
        self._agents: dict[str, _Agent] = {}
        self._target: Target | None = None
        self._plans, self._by_hosts = NO_HOST_PLANS, by_hosts
        self._digests: dict[str, str] = {}
        self._before = NONE_KNOWN
        self._withheld = ""
        self._confirmations = 0
        self._verdicts = verdicts
        verdicts.count_agents(by_hosts, runtime.clock())
        self._ports, self._qps, self._paths_changed = HostPorts(), HostQps(), paths_changed
        self._samples = HostSamples(runtime, intended)

    def start(self) -> None:
        """Begin to look for agents that have become silent."""
        self._runtime.spawn(self._look_for_silence)

    # -- the enforcer ------------------------------------------------------------------------------------------

    def enforces(self, _switch: Switch) -> bool:
        """Return whether hosts carry out plans, or check them: then these hold at every router that they confirm."""
        return self._confirms

    def install(self, target: Target) -> None:
        """Hand this plan to the agents, of which most wait for it."""
        plans = target.compiled
        assert isinstance(plans, HostPlans)
        if plans.checks != self._plans.checks:
            # Numbers of flows are ports there, and no ports here.
            self._ports = HostPorts()
            self._paths_changed()
        before, digests = self._plans, self._digests
        self._target, self._plans = target, plans
        self._by_hosts = plans.fabric is not None and not (plans.checks or plans.idle)
        self._verdicts.count_agents(self._by_hosts, self._runtime.clock())
        self._before, self._digests = known_plans(plans, before, digests)
        silent = [name for name, agent in self._agents.items() if agent.silent]
        held = {name: self._held(name) for name in self._agents}
        self._confirmed.begin(plans.fabric, target.epoch, plans.taking_part, held, silent)
        self._wake()

    def expect(self, compiled: CompiledPlan) -> None:
        """Do nothing: agents are asked, whatever they are likely to hold."""

    def withhold_changes(self, reason: str) -> None:
        """Hand out no plan from now on, for this reason; empty: hand them out again."""
        self._withheld = reason
        self._wake()

    def lead(self, _term: int) -> None:
        """Hand out plans: agents ask the replica that leads."""
        self.withhold_changes("")

    @property
    def connections(self) -> int:
        """Always 0: no switch is connected."""
        return 0

    @property
    def silence(self) -> float:
        """Always 0: a replica is not judged by what it hears of agents."""
        return 0.0

    @property
    def unheard(self) -> float:
        """Always 0, as ``silence``."""
        return 0.0

    @property
    def seen_term(self) -> int:
        """Always 0: agents know no terms."""
        return 0

    @property
    def lost(self) -> str:
        """Always empty: agents ask whoever leads."""
        return ""

    @property
    def agents(self) -> AgentCounts | None:
        """How many agents a plan needs, and how many of them are heard and have confirmed it."""
        if not self._confirms:
            return None
        latest, agents = self._runtime.clock() - SILENT_SECONDS, map(self._agents.get, self._confirmed.hosts)
        heard = sum(agent is not None and agent.heard >= latest for agent in agents)
        return AgentCounts(len(self._confirmed.hosts), heard, self._confirmed.confirmed)

    def switches(self) -> Sequence[RouterReport]:
        """Return a report of each router; none before there is a plan, and where hosts do nothing about it."""
        return self._confirmed.reports() if self._confirms else []

    @property
    def refusal(self) -> Refusal | None:
        """Always ``None``: an agent that cannot follow a plan does not confirm it."""
        return None

    @property
    def next_try(self) -> float | None:
        """Always ``None``."""
        return None

    def deviations(self) -> Mapping[SwitchKey, Deviation]:
        """Return no deviations: agents read back and repair what their kernels hold, before they confirm it."""
        return {}

    def notices(self) -> list[str]:
        """Return what people should know of the answers to probes of ports."""
        if self._plans.form != "ports":
            return []
        return [*self._ports.notices(self._confirmed.hosts), *self._samples.notices()]

    def counts(self) -> EnforcerCounts:
        """Return what has happened since the start; an edit is a plan that an agent has confirmed."""
        return EnforcerCounts(edits=self._confirmations)

    # -- the agents --------------------------------------------------------------------------------------------

    def plan(self, host: str, has: AgentHas, seconds: float, gone: Callable[[], bool]) -> bytes | None:
        """Return the plan of a host when it is another one than its agent has."""
        end = self._runtime.clock() + seconds
        first = True
        while True:
            self._check_given()
            self._check_form(has.form)
            if first:
                self._note_plan(host, "" if has.plan is None else has.plan.digest)
            first = False
            self._hear(host)
            target, plans, changed = self._target, self._plans, self._new_plan
            if target is not None and not self._withheld:
                body = self._made(host, target, plans, has)
                if body is not None and target is self._target:
                    self._note_plan(host, self._digests[host])
                    return body
            left = end - self._runtime.clock()
            if left <= 0 or gone():
                return None
            if target is self._target:
                changed.wait(min(left, GONE_SECONDS))

    def plans(self, asked: Sequence[tuple[str, AgentHas]]) -> HostAnswers:
        """Return the plans of many hosts whose agents have other ones."""
        # Before the answers: whoever waits for another version than this one misses no plan.
        version, target, plans = self._version, self._target, self._plans
        answers: dict[int, HostAnswer] = {}
        for number, (host, has) in enumerate(asked):
            try:
                self._check_given()
                self._check_form(has.form)
            except ConflictError as error:
                answers[number] = error
                continue
            self._note_plan(host, "" if has.plan is None else has.plan.digest)
            if target is None or self._withheld or self._is_held(target, host, has):
                answers[number] = None
        wanted = [number for number in range(len(asked)) if number not in answers]
        if target is not None:
            made = self._documents.documents(plans, target.epoch, [asked[number] for number in wanted], self._before)
            for number, document in zip(wanted, made, strict=True):
                host, has = asked[number]
                if isinstance(document, Exception):
                    answers[number] = document
                    continue
                answers[number] = body = self._news(host, target, document, has)
                if body is not None:
                    self._note_plan(host, document.digest)
        return HostAnswers(version, [answers[number] for number in range(len(asked))])

    def version(self, known: str, seconds: float, gone: Callable[[], bool]) -> str:
        """Return the version of all plans when it is another one."""
        end = self._runtime.clock() + seconds
        while self._version == known and not gone():
            left = end - self._runtime.clock()
            if left <= 0:
                break
            self._new_plan.wait(min(left, GONE_SECONDS))
        return self._version

    def table(self, host: str) -> bytes:
        """Return the hosts that a host can reach."""
        self._check_given()
        self._check_form("carriers")
        plans = self._plans
        if plans.fabric is None:
            raise UnavailableError("there is no plan yet")
        return plans.content.table(plans.fabric.host_index[host])

    def report(self, host: str, report: HostReport) -> None:
        """Take a report of the agent of a host."""
        self._check_given()
        agent, target = self._hear(host), self._target
        if agent.report is not None and report.is_before(agent.report):
            return
        if target is not None and report.plan is not None and report.plan.epoch == target.epoch:
            self._made(host, target, self._plans, AgentHas(report.plan))
        self._take_evidence(host, report)
        report = self._qps.whole(host, report)
        news = self._ports.take(host, report, self._runtime.clock())
        if news.paths:
            self._paths_changed()
        if news.notices:
            self.switches_changed.set()
        before, agent.report = agent.report, report
        if before is None or before.plan != report.plan:
            self._confirmations += report.plan is not None
            self._note(host)

    def see(self, seen: SeenFlows) -> None:
        """Take at which routers packets of hosts were sampled."""
        self._samples.take(seen)

    def samples(self, host: str, after: int, seconds: float, gone: Callable[[], bool]) -> dict[str, Any] | None:
        """Return what routers have sampled of the packets of a host, as soon as there is something."""
        self._check_given()
        self._check_form("ports")
        self._hear(host)
        return self._samples.news(host, after, seconds, gone)

    def states(self) -> list[AgentState]:
        """Return what is known of the agents of all hosts."""
        if not self._confirms:
            return []
        now, taking_part = self._runtime.clock(), self._plans.taking_part
        states = []
        for number, host in enumerate((self._plans.fabric or self._intended).hosts):
            agent = self._agents.get(host.name)
            report = None if agent is None else agent.report
            epoch = self._held(host.name)
            states.append(
                AgentState(
                    host.name,
                    number in taking_part,
                    None if agent is None else now - agent.heard,
                    epoch if epoch >= 0 else None,
                    self._target is not None and epoch == self._target.epoch,
                    report,
                    agent is None or now - agent.heard > SILENT_SECONDS,
                )
            )
        return states

    def portless(self) -> frozenset[PortlessPath]:
        """Return what reports show of paths that no source port leads over."""
        return self._ports.portless

    def learned_ports(self) -> LearnedPorts:
        """Return what reports show of the source ports of flows."""
        return self._ports.learned(self._runtime.clock())

    def _take_evidence(self, host: str, report: HostReport) -> None:
        """Take what a report says of cables."""
        paths, fabric = self._plans.cables, self._plans.fabric or self._intended
        number, dead = fabric.host_index[host], {path.carrier for path in report.dead}
        lost = [paths.suspects(number, path.carrier, path.at, probed=path.evidence == "probe") for path in report.dead]
        entered = set[int]()
        for each in report.bypasses:
            cable = paths.bypassed(number, each.probe)
            if cable is not None and each.came_back:
                lost.append(frozenset({cable}))
            elif cable is not None:
                entered.add(cable)
        back = [
            trip.carrier
            for trip in report.round_trips
            if trip.median_us is not None and not trip.lost and trip.carrier not in dead
        ]
        passed = [paths.confirmed(number, carrier) for carrier in back]
        shown = frozenset[int]().union(*(paths.shown(number, carrier, entered) for carrier in back))
        self._verdicts.take(host, self._runtime.clock(), lost, passed, shown)

    @property
    def carry_out_plans(self) -> bool:
        """Whether hosts, not switches, carry out the newest plan."""
        return self._by_hosts

    @property
    def _is_given(self) -> bool:
        """Whether hosts are given plans."""
        return self._by_hosts or self._plans.checks or self._plans.idle

    @property
    def _confirms(self) -> bool:
        """Whether it is known from hosts what holds: those that only check plans need no agents, but may have some."""
        if not self._plans.checks:
            return self._by_hosts
        agents = (self._agents.get(name) for name in self._confirmed.hosts)
        return any(agent is not None and not agent.silent for agent in agents)

    def _check_given(self) -> None:
        if not self._is_given:
            raise ConflictError("hosts are given no plans: the enforcement is one that switches carry out")

    def _check_form(self, form: HostForm) -> None:
        if self._plans.fabric is not None and self._plans.form != form:
            raise ConflictError(
                f"agents for plans of {form} are given none: the enforcement has those of {self._plans.form}"
            )

    def _made(self, host: str, target: Target, plans: HostPlans, has: AgentHas) -> bytes | None:
        """Return the document of a host's plan unless its agent has it, and note the hash."""
        if self._is_held(target, host, has):
            return None
        made = self._documents.document(plans, target.epoch, host, has, self._before)
        return self._news(host, target, made, has)

    def _news(self, host: str, target: Target, made: HostDocument, has: AgentHas) -> bytes | None:
        """Note the hash of the document of a host's plan; return it unless its agent has it, or it is no longer new."""
        if target is not self._target:
            return None
        if self._digests.get(host) != made.digest:
            self._digests[host] = made.digest
            self._note(host)
        return None if self._is_held(target, host, has) else made.body

    def _is_held(self, target: Target, host: str, has: AgentHas) -> bool:
        """Return whether an agent has a plan, as far as the hash of it is known."""
        if has.plan is None:
            return False
        return has.plan.digest == self._digests.get(host) and (has.changes or has.plan.epoch == target.epoch)

    def _note_plan(self, host: str, digest: str) -> None:
        """Note which plan an agent has, by the hash of it (empty: none)."""
        agent = self._hear(host)
        if agent.has != digest:
            agent.has = digest
            self._note(host)

    def _note(self, host: str) -> None:
        """Note which plan a host has confirmed."""
        if self._confirmed.note(host, self._held(host)):
            self.switches_changed.set()

    def _hear(self, host: str) -> _Agent:
        now = self._runtime.clock()
        agent = self._agents.setdefault(host, _Agent(now))
        agent.heard = now
        if agent.silent:
            agent.silent = False
            self._confirmed.hear(host, silent=False)
            self.switches_changed.set()
        return agent

    def _held(self, host: str) -> int:
        """Return the epoch of the plan that a host has confirmed; -1: none, or not the one of this number.

        A plan of another number that says the same is the newest one.
        """
        agent, target = self._agents.get(host), self._target
        if agent is None or agent.report is None or agent.report.plan is None or target is None:
            return -1
        plan = agent.report.plan
        if plan.digest and plan.digest == self._digests.get(host):
            # Since it has confirmed one of another number, it may have been given one that says something else.
            return target.epoch if plan.epoch == target.epoch or agent.has in (None, plan.digest) else -1
        return plan.epoch if plan.epoch < target.epoch else -1

    def _look_for_silence(self) -> None:
        while True:
            self._runtime.sleep(LOOK_SECONDS)
            latest = self._runtime.clock() - SILENT_SECONDS
            new = {name: agent for name, agent in self._agents.items() if agent.heard < latest and not agent.silent}
            for name, agent in new.items():
                agent.silent = True
                self._confirmed.hear(name, silent=True)
            self._verdicts.silent(new, self._runtime.clock())
            if new:
                self.switches_changed.set()

    @property
    def _version(self) -> str:
        return f"{self._run}-{self._wakes}"

    def _wake(self) -> None:
        """Have all agents that wait look for their plans."""
        self._wakes += 1
        self._new_plan.set()
        self._new_plan = self._runtime.signal()
        self.switches_changed.set()
