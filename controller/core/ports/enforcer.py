"""What the controller needs of the side that makes the network follow a plan.

``controller.openflow_enforcer.OpenFlowEnforcer`` implements it by the rules of OpenFlow switches,
``controller.host_enforcer.HostEnforcer`` by plans of hosts. The cut is between ``EnforcementTask`` (fabric, traffic,
encoding), which the core makes, and ``CompiledPlan``, which the enforcer's own compiler makes of it: the core keeps,
compares and passes on compiled plans, and never looks into one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controller.core.ports.runtime import Signal
from controller.core.saved.applied_plan import AppliedPlan
from controller.model.fabric import Fabric, Switch
from controller.model.switch_key import SwitchKey
from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.rollout.drift import Deviation


class CompiledPlan(Protocol):
    """What a compiler made of a task: rules of switches, or whatever else enforces a plan."""

    def size(self, switch: SwitchKey) -> int:
        """Return the number of entries (rules, say) that a switch must hold."""


class Compiler(Protocol):
    """Makes compiled plans. Pure, may take long, and is called in any thread."""

    def __call__(self, task: EnforcementTask) -> CompiledPlan:
        """Return the compiled plan; equal tasks give equal ones.

        Raises:
            InputError: the task cannot be enforced.
        """


@dataclass(frozen=True, eq=False)
class Target:
    """What is to be enforced from now on.

    Attributes:
        compiled: made by the enforcer's own compiler.
        epoch: of the plan.
        names: of switches, by key, for people.
        plan: what a later target's ``earlier`` needs of this one.
        earlier: returns forwarding on this target's fabric with the flows of an earlier target, given that one's
            ``plan``, for switches that refuse this target. Pure, and may take long. ``None``: there is no such thing.
    """

    compiled: CompiledPlan
    epoch: int
    names: Mapping[SwitchKey, str]
    plan: AppliedPlan | None = None
    earlier: Callable[[AppliedPlan], CompiledPlan] | None = None


class SwitchReport(Protocol):
    """The state of one switch that is connected, or whose hosts carry out the plan.

    Attributes:
        epoch: of the plan that it has confirmed whole; -1: none.
        error: why it does not follow; empty: it does.
        missing: ports to which its rules send, and which it does not have.
        connected: whether the controller speaks to it; else its hosts have said what is known.
        waits_for: its hosts that have not confirmed the newest plan, where hosts carry it out.
    """

    @property
    def key(self) -> SwitchKey: ...
    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def error(self) -> str: ...
    @property
    def missing(self) -> tuple[int, ...]: ...
    @property
    def connected(self) -> bool: ...
    @property
    def waits_for(self) -> tuple[str, ...]: ...


class Refusal(Protocol):
    """A switch does not take a plan.

    Attributes:
        epoch: the plan's; ``stays``: the plan that holds instead, on the newest fabric; ``None``: there is none.
        key, switch: of the switch that refuses, and its name.
        kind: what is wrong; ``is_full``: there is no room.
        table: what has no room, or was refused, where the switch has several tables.
        short: how many entries more than there is room for.
        bare: names of switches that forward without any plan meanwhile.
        text: all of it in words.
    """

    @property
    def epoch(self) -> int: ...
    @property
    def stays(self) -> int | None: ...
    @property
    def key(self) -> SwitchKey: ...
    @property
    def switch(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def is_full(self) -> bool: ...
    @property
    def table(self) -> int | None: ...
    @property
    def short(self) -> int: ...
    @property
    def bare(self) -> tuple[str, ...]: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class AgentCounts:
    """Agents of hosts that a plan needs, those of them that are heard, and those that have confirmed it."""

    expected: int
    heard: int
    confirmed: int


@dataclass(frozen=True)
class EnforcerCounts:
    """Counters of an enforcer since the start.

    Attributes:
        edits: changes that switches have confirmed.
        refusals: plans that a switch has refused.
        errors: errors that switches have sent, by type.
        repaired: repaired rules by switch.
        contested: switches that another controller seems to manage, too.
    """

    edits: int = 0
    refusals: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    repaired: Mapping[str, int] = field(default_factory=dict)
    contested: Sequence[str] = ()


class Enforcer(Protocol):
    """Makes the network follow plans, and says what holds where.

    Nothing here calls the controller: it waits for the signals.
    """

    @property
    def compiler(self) -> Compiler:
        """Makes what ``install`` takes."""

    def enforces(self, switch: Switch) -> bool:
        """Return whether plans are made to hold at this switch. At others, nothing is changed and nothing is known."""

    @property
    def switches_changed(self) -> Signal:
        """Set when a switch has reached its target, lost or refused it, or when a notice has come or gone."""

    def install(self, target: Target) -> None:
        """Bring the network to this target; does not block."""

    def expect(self, compiled: CompiledPlan) -> None:
        """Note what the network is likely to hold when it is read. Does not block."""

    def withhold_changes(self, reason: str) -> None:
        """Change nothing from now on, for this reason; empty: change the network again. Does not block."""

    def lead(self, term: int) -> None:
        """Become master of all switches for this term of a cluster. Does not block."""

    @property
    def connections(self) -> int:
        """The number of switches that are connected, also to a replica of a cluster that does not lead."""

    @property
    def silence(self) -> float:
        """Seconds in which this program could read, and nothing came from any switch."""

    @property
    def unheard(self) -> float:
        """Seconds since something came from a switch, also those in which this program could not read."""

    @property
    def seen_term(self) -> int:
        """The highest term of a cluster that a switch has told; 0: none has."""

    @property
    def lost(self) -> str:
        """Why switches accept this replica of a cluster as their master no longer; empty: they do."""

    def switches(self) -> Sequence[SwitchReport]:
        """Return a report of each switch that is connected, or at which hosts make plans hold."""

    @property
    def agents(self) -> AgentCounts | None:
        """The agents that carry out plans; ``None``: switches do."""

    @property
    def refusal(self) -> Refusal | None:
        """Why the newest target does not hold; ``None`` while no switch has refused it."""

    @property
    def next_try(self) -> float | None:
        """Seconds until a refused target is tried again; ``None``: no try is planned, or one is under way."""

    def deviations(self) -> Mapping[SwitchKey, Deviation]:
        """Return how what connected switches hold deviates from what they confirmed; others are left out."""

    def notices(self) -> Sequence[str]:
        """Return what people should know of the switches beside their reports."""

    def counts(self) -> EnforcerCounts:
        """Return what has happened since the start."""


def left_alone(fabric: Fabric | None, enforcer: Enforcer) -> frozenset[SwitchKey]:
    """Return the switches of a fabric at which an enforcer enforces nothing."""
    if fabric is None:
        return frozenset()
    return frozenset(switch.key for switch in fabric.switches if not enforcer.enforces(switch))


def connected(switches: Sequence[SwitchReport]) -> frozenset[SwitchKey]:
    """Return the keys of the switches to which the controller speaks."""
    return frozenset(report.key for report in switches if report.connected)
