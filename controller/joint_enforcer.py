"""Plans as the rules of OpenFlow switches and as plans of hosts: on one fabric, either may carry out a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controller.core.ports.enforcer import (
    AgentCounts,
    CompiledPlan,
    Enforcer,
    EnforcerCounts,
    Refusal,
    SwitchReport,
    Target,
)
from controller.core.ports.runtime import Signal
from controller.host_enforcer import HostEnforcer
from controller.model.fabric import Switch
from controller.model.switch_key import SwitchKey
from controller.southbound.enforcement.carried_rules import CarriedRules, CarriedRulesCompiler
from controller.southbound.rollout.drift import Deviation
from controller.southbound.rules.rule import Rule, RuleKey
from controller.southbound.rules.rule_set import RuleSet, SwitchRules


@dataclass(frozen=True)
class JointReport:
    """The state of a connected switch, where its hosts have to confirm plans, too."""

    key: SwitchKey
    name: str
    epoch: int
    error: str
    missing: tuple[int, ...]
    waits_for: tuple[str, ...]
    connected: bool = True


class JointEnforcer:
    """A ``controller.core.ports.enforcer.Enforcer`` that brings switches to rules, and then hosts to plans.

    Hosts get a plan when each connected switch has the rules that their packets need, or, where switches carry out
    plans, all of that plan's. When hosts stop to write carriers, the rules of these stay, so that no packet is lost
    whose host has not heard of it; they go when the controller starts again.
    """

    def __init__(self, compiler: CarriedRulesCompiler, switches: Enforcer, hosts: HostEnforcer) -> None:
        """Join the two; ``switches_changed`` of the switches is set for both."""
        self.compiler, self._switches, self._hosts = compiler, switches, hosts
        self._target: Target | None = None
        self._waiting: Target | None = None
        self._needed: Mapping[int, Mapping[RuleKey, Rule]] = {}
        self._kept: CarriedRules | None = None
        # The epoch since which the rules that hosts need are those of now, by switch.
        self._since: dict[SwitchKey, int] = {}

    @property
    def switches_changed(self) -> Signal:
        """Set when a switch or a host has reached its target, lost or refused it."""
        return self._switches.switches_changed

    def enforces(self, switch: Switch) -> bool:
        """Return whether a switch speaks OpenFlow."""
        return self._switches.enforces(switch)

    def install(self, target: Target) -> None:
        """Bring the switches to these rules, and then the hosts to their plans; does not block."""
        rules = target.compiled
        assert isinstance(rules, CarriedRules)
        if rules.needed:
            self._kept = rules
            for key, needed in rules.needed.items():
                if self._needed.get(key) != needed:
                    self._since[key] = target.epoch
            self._needed = rules.needed
        elif self._hosts.carry_out_plans:
            # From here on hosts send what the new rules of all switches are for.
            self._since = dict.fromkeys(rules, target.epoch)
        self._target = self._waiting = target
        self._switches.install(replace(target, compiled=self._with_kept(rules)))
        self.see_switches()

    def _with_kept(self, rules: CarriedRules) -> RuleSet:
        """Return rules with those for packets of hosts that have not stopped yet to write carriers."""
        kept = self._kept
        if kept is None or kept is rules or rules.needed:
            return rules
        every = dict(rules.switches)
        for key, held in rules.switches.items():
            added, groups = kept.needed.get(key, {}), kept[key].groups
            # On the rare clash of two groups, the new plan's is right.
            if added and not any(held.groups.get(id_, group) != group for id_, group in groups.items()):
                every[key] = SwitchRules({**added, **held.rules}, {**groups, **held.groups})
        return RuleSet(every)

    def see_switches(self) -> None:
        """Hand the newest plan to hosts if switches are ready for it."""
        waiting = self._waiting
        if waiting is None or not all(
            report.error or report.epoch >= self._since.get(report.key, -1) for report in self._switches.switches()
        ):
            return
        rules = waiting.compiled
        assert isinstance(rules, CarriedRules)
        self._waiting = None
        self._hosts.install(replace(waiting, compiled=rules.hosts))

    def expect(self, compiled: CompiledPlan) -> None:
        """Note the rules that switches are likely to hold when they are read."""
        self._switches.expect(compiled)

    def withhold_changes(self, reason: str) -> None:
        """Change nothing from now on, for this reason; empty: change switches and hosts again."""
        self._switches.withhold_changes(reason)
        self._hosts.withhold_changes(reason)

    def lead(self, term: int) -> None:
        """Become master of all switches for this term of a cluster, and hand out plans."""
        self._switches.lead(term)
        self._hosts.lead(term)

    @property
    def seen_term(self) -> int:
        """The highest term of a cluster that a switch has told."""
        return self._switches.seen_term

    @property
    def lost(self) -> str:
        """Why switches accept this replica of a cluster as their master no longer; empty: they do."""
        return self._switches.lost

    @property
    def connections(self) -> int:
        """The number of switches that are connected, also to a replica of a cluster that does not lead."""
        return self._switches.connections

    @property
    def silence(self) -> float:
        """Seconds in which this program could read, and nothing came from any switch."""
        return self._switches.silence

    @property
    def unheard(self) -> float:
        """Seconds since something came from a switch, also those in which this program could not read."""
        return self._switches.unheard

    def switches(self) -> Sequence[SwitchReport]:
        """Return the state of each connected switch; where hosts carry out plans, with what these have confirmed."""
        states = self._switches.switches()
        if not self._by_hosts:
            return states
        confirmed = {report.key: report for report in self._hosts.switches()}
        joined = []
        for state in states:
            of_hosts = confirmed.get(state.key)
            # Until hosts have been given the plan they hold none of it.
            epoch, error, waits_for = -1, "", tuple[str, ...]()
            if of_hosts is not None:
                epoch, error, waits_for = of_hosts.epoch, of_hosts.error, of_hosts.waits_for
            epoch, error = min(epoch, state.epoch), state.error or error
            joined.append(JointReport(state.key, state.name, epoch, error, state.missing, waits_for))
        return joined

    @property
    def agents(self) -> AgentCounts | None:
        """The agents that carry out plans; ``None``: switches do."""
        return self._hosts.agents if self._by_hosts else None

    @property
    def refusal(self) -> Refusal | None:
        """Why the newest rules are not on the switches; ``None`` while none of them has refused them."""
        return self._switches.refusal

    @property
    def next_try(self) -> float | None:
        """Seconds until refused rules are tried again."""
        return self._switches.next_try

    def deviations(self) -> Mapping[SwitchKey, Deviation]:
        """Return how the rules of switches, as read back, deviate from those that they confirmed."""
        return self._switches.deviations()

    def notices(self) -> Sequence[str]:
        """Return what was wrong with rules that were read back, for people."""
        return self._switches.notices()

    def counts(self) -> EnforcerCounts:
        """Return what has happened at switches since the start."""
        return self._switches.counts()

    @property
    def _by_hosts(self) -> bool:
        target = self._target
        return target is not None and isinstance(target.compiled, CarriedRules) and bool(target.compiled.needed)
