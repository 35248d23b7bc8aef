"""Plans that agents on hosts carry out: they ask for them, and confirm what the kernels of their hosts hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from controller.core.errors import ConflictError
from controller.core.ports.enforcer import AgentCounts, CompiledPlan, EnforcerCounts, Refusal, Target
from controller.core.ports.host_agents import AgentState, HostReport, PlanId
from controller.core.ports.runtime import Runtime
from controller.model.fabric import Fabric, Switch
from controller.model.switch_key import SwitchKey
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS, HostPlans
from controller.southbound.rollout.drift import Deviation

SILENT_SECONDS = 20.0
"""Time without a request or report after which an agent counts as silent: twice that between two reports."""

LOOK_SECONDS = 2.0
"""Between two looks for agents that have become silent, or have disconnected while they waited for a plan."""

MOST_NAMED = 5
"""Most hosts that one line names."""


@dataclass(frozen=True)
class RouterReport:
    """The state of a router by what its hosts have confirmed; the controller does not speak to it.

    ``waits_for``: its hosts that take part in the plan and have not confirmed it.
    """

    key: SwitchKey
    name: str
    epoch: int
    error: str = ""
    missing: tuple[int, ...] = ()
    waits_for: tuple[str, ...] = ()
    connected: bool = False


@dataclass
class _Agent:
    """An agent that was heard. ``silent``: it has not been heard for some time, and this was told."""

    heard: float
    report: HostReport | None = None
    silent: bool = False


class HostEnforcer:
    """A ``controller.core.ports.enforcer.Enforcer`` and ``HostAgents``: agents follow plans on a fabric of routers.

    A router holds a plan when the agents of all its hosts that take part in it have confirmed it. What agents have
    confirmed to an earlier run of the controller is not known until they report again.
    """

    def __init__(self, compiler: HostCompiler, runtime: Runtime, intended: Fabric, *, by_hosts: bool) -> None:
        """Begin without a plan.

        Args:
            compiler: makes the plans of hosts.
            runtime: tasks, waiting and time.
            intended: the fabric of the file, whose switches are routers.
            by_hosts: whether the first enforcement is one that hosts carry out.
        """
        self.compiler, self._runtime, self._intended = compiler, runtime, intended
        self.switches_changed = runtime.signal()
        self._new_plan = runtime.signal()
        self._making = runtime.lock()
        self._agents: dict[str, _Agent] = {}
        self._target: Target | None = None
        self._plans, self._by_hosts = NO_HOST_PLANS, by_hosts
        self._digests: dict[str, str] = {}
        self._seen: Sequence[RouterReport] | None = None
        self._withheld = ""
        self._confirmations = 0

    def start(self) -> None:
        """Begin to look for agents that have become silent."""
        self._runtime.spawn(self._look_for_silence)

    # -- the enforcer ------------------------------------------------------------------------------------------

    def enforces(self, _switch: Switch) -> bool:
        """Return whether hosts carry out plans: then these hold at every router."""
        return self._by_hosts

    def install(self, target: Target) -> None:
        """Hand this plan to the agents, of which most wait for it."""
        plans = target.compiled
        assert isinstance(plans, HostPlans)
        self._target, self._plans, self._by_hosts = target, plans, plans.fabric is not None
        self._digests = {}
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
        if not self._by_hosts:
            return None
        needed = [state for state in self.states() if state.takes_part]
        heard = sum(state.heard_seconds is not None and state.heard_seconds <= SILENT_SECONDS for state in needed)
        return AgentCounts(len(needed), heard, sum(state.confirmed for state in needed))

    def switches(self) -> Sequence[RouterReport]:
        """Return a report of each router; none before there is a plan, and where hosts carry out none."""
        if self._seen is None:
            self._seen = self._reports()
        return self._seen

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
        """Return no notices."""
        return []

    def counts(self) -> EnforcerCounts:
        """Return what has happened since the start; an edit is a plan that an agent has confirmed."""
        return EnforcerCounts(edits=self._confirmations)

    # -- the agents --------------------------------------------------------------------------------------------

    def plan(self, host: str, known: PlanId | None, seconds: float, gone: Callable[[], bool]) -> bytes | None:
        """Return the plan of a host when it is another one than ``known``."""
        end = self._runtime.clock() + seconds
        while True:
            self._check_given()
            self._hear(host)
            target, plans, changed = self._target, self._plans, self._new_plan
            if target is not None and not self._withheld:
                body = self._made(host, target, plans, known)
                if body is not None and target is self._target:
                    return body
            left = end - self._runtime.clock()
            if left <= 0 or gone():
                return None
            if target is self._target:
                changed.wait(min(left, LOOK_SECONDS))

    def report(self, host: str, report: HostReport) -> None:
        """Take a report of the agent of a host."""
        self._check_given()
        agent, target = self._hear(host), self._target
        if target is not None and report.plan is not None and report.plan.epoch == target.epoch:
            self._made(host, target, self._plans, report.plan)
        before, agent.report = agent.report, report
        if before is None or before.plan != report.plan:
            self._confirmations += report.plan is not None
            self._changed()

    def states(self) -> list[AgentState]:
        """Return what is known of the agents of all hosts."""
        if not self._by_hosts:
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
                )
            )
        return states

    def _check_given(self) -> None:
        if not self._by_hosts:
            raise ConflictError("hosts are given no plans: the enforcement is one that switches carry out")

    def _made(self, host: str, target: Target, plans: HostPlans, known: PlanId | None) -> bytes | None:
        """Return the document of a host's plan unless its agent knows it, and note the hash."""
        if known == (target.epoch, self._digests.get(host)):
            return None
        # One at a time: a new plan wakes thousands of agents, and what is made has to be sent before it is forgotten.
        with self._making:
            if target is not self._target:
                return None
            digest, body = self._runtime.offload(_document, plans, host, target.epoch)
        if target is self._target and self._digests.get(host) != digest:
            self._digests[host] = digest
            self._changed()
        return None if known == (target.epoch, digest) else body

    def _hear(self, host: str) -> _Agent:
        now = self._runtime.clock()
        agent = self._agents.setdefault(host, _Agent(now))
        agent.heard = now
        if agent.silent:
            agent.silent = False
            self._changed()
        return agent

    def _held(self, host: str) -> int:
        """Return the epoch of the plan that a host has confirmed; -1: none, or not the one of this number."""
        agent, target = self._agents.get(host), self._target
        plan = None if agent is None or agent.report is None else agent.report.plan
        if plan is None or target is None or plan.epoch > target.epoch:
            return -1
        if plan.epoch == target.epoch and plan.digest != self._digests.get(host):
            return -1
        return plan.epoch

    def _reports(self) -> list[RouterReport]:
        target, fabric = self._target, self._plans.fabric
        if target is None or fabric is None:
            return []
        epochs: dict[str, int] = {}
        waits_for: dict[str, list[str]] = {}
        errors: dict[str, list[str]] = {}
        for number in sorted(self._plans.taking_part):
            host = fabric.hosts[number]
            epoch = self._held(host.name)
            epochs[host.leaf] = min(epochs.get(host.leaf, target.epoch), epoch)
            if epoch < target.epoch:
                waits_for.setdefault(host.leaf, []).append(host.name)
            agent = self._agents.get(host.name)
            if agent is not None and agent.silent:
                errors.setdefault(host.leaf, []).append(host.name)
        return [
            RouterReport(
                switch.key,
                switch.name,
                epochs.get(switch.name, target.epoch),
                _silent(errors.get(switch.name, ())),
                waits_for=tuple(waits_for.get(switch.name, ())),
            )
            for switch in fabric.switches
        ]

    def _look_for_silence(self) -> None:
        while True:
            self._runtime.sleep(LOOK_SECONDS)
            latest = self._runtime.clock() - SILENT_SECONDS
            new = [agent for agent in self._agents.values() if agent.heard < latest and not agent.silent]
            for agent in new:
                agent.silent = True
            if new:
                self._changed()

    def _changed(self) -> None:
        """Have what is known of the routers computed again."""
        self._seen = None
        self.switches_changed.set()

    def _wake(self) -> None:
        """Have all agents that wait look for their plans."""
        self._new_plan.set()
        self._new_plan = self._runtime.signal()
        self._changed()


def _silent(hosts: Sequence[str]) -> str:
    if not hosts:
        return ""
    more = f" and {len(hosts) - MOST_NAMED} more" if len(hosts) > MOST_NAMED else ""
    named = ", ".join(hosts[:MOST_NAMED])
    agents = f"the agent of {named} is" if len(hosts) == 1 else f"the agents of {named}{more} are"
    return f"{agents} silent: what the kernel holds is not known"


def _document(plans: HostPlans, host: str, epoch: int) -> tuple[str, bytes]:
    """Return the hash of what a plan says to a host, and the document with it. Takes milliseconds for many hosts."""
    fabric = plans.fabric
    assert fabric is not None
    content: dict[str, Any] = {"host": host, "mode": plans.mode, **plans.content(fabric.host_index[host])}
    digest = hashlib.sha256(orjson.dumps(content)).hexdigest()[:16]
    return digest, orjson.dumps({"epoch": epoch, "digest": digest, **content})
