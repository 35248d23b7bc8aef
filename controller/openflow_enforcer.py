"""Plans as the rules of OpenFlow switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.core.ports.enforcer import CompiledPlan, EnforcerCounts, Target
from controller.core.ports.runtime import Signal
from controller.model.fabric import Switch
from controller.model.switch_key import SwitchKey
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler
from controller.southbound.openflow.connections.connection_context import ConnectionContext
from controller.southbound.openflow.enforcing.installer import Installer
from controller.southbound.openflow.enforcing.roles import Roles
from controller.southbound.openflow.enforcing.session import SwitchState
from controller.southbound.openflow.enforcing.verifier import Verifier
from controller.southbound.rollout.desired_rules import DesiredRules
from controller.southbound.rollout.drift import Deviation
from controller.southbound.rollout.rollout import OpenFlowRefusal
from controller.southbound.rules.rule_set import RuleSet


@dataclass(frozen=True)
class OpenFlowEnforcer:
    """A ``controller.core.ports.enforcer.Enforcer``: brings the rules of switches to those of a plan.

    ``_roles``: of a replica of a cluster; ``None``: there is no cluster.
    """

    compiler: OpenFlowCompiler
    switches_changed: Signal
    _installer: Installer
    _verifier: Verifier
    _roles: Roles | None
    _connections: ConnectionContext

    def enforces(self, switch: Switch) -> bool:
        """Return whether a switch speaks OpenFlow."""
        return switch.kind == "openflow"

    def install(self, target: Target) -> None:
        """Bring the switches to these rules; does not block."""
        earlier = target.earlier
        self._installer.target(
            DesiredRules(
                _rules(target.compiled),
                target.epoch,
                target.names,
                target.plan,
                None if earlier is None else lambda plan: _rules(earlier(plan)),
            )
        )

    def expect(self, compiled: CompiledPlan) -> None:
        """Note the rules that switches are likely to hold when they are read, so that this takes less time."""
        self._installer.expected = _rules(compiled)

    def withhold_changes(self, reason: str) -> None:
        """Change no switch from now on, for this reason; empty: change them again."""
        self._installer.permission.withheld = reason

    def lead(self, term: int) -> None:
        """Become master of all switches for this term of a cluster, and change them from now on."""
        assert self._roles is not None
        self._roles.lead(term)

    @property
    def seen_term(self) -> int:
        """The highest term of a cluster that a switch has told."""
        return 0 if self._roles is None else self._roles.seen

    @property
    def lost(self) -> str:
        """Why switches accept this replica of a cluster as their master no longer; empty: they do."""
        return "" if self._roles is None else self._roles.lost

    @property
    def connections(self) -> int:
        """The number of switches that are connected, also to a replica of a cluster that does not lead."""
        return len(self._installer.states()) if self._roles is None else self._roles.connections

    @property
    def silence(self) -> float:
        """Seconds in which this program could read, and nothing came from any switch."""
        return self._connections.awake - self._connections.heard

    @property
    def unheard(self) -> float:
        """Seconds since something came from a switch, also those in which this program could not read."""
        return self._connections.clock() - self._connections.heard_at

    def switches(self) -> list[SwitchState]:
        """Return the state of each connected switch, by datapath id."""
        return self._installer.states()

    @property
    def agents(self) -> None:
        """No agents: switches carry out plans."""
        return

    @property
    def refusal(self) -> OpenFlowRefusal | None:
        """Why the newest rules are not on the switches; ``None`` while none of them has refused them."""
        return self._installer.refusal

    @property
    def next_try(self) -> float | None:
        """Seconds until refused rules are tried again."""
        return self._installer.next_try

    def deviations(self) -> Mapping[SwitchKey, Deviation]:
        """Return how the rules of switches, as read back, deviate from those that they confirmed."""
        return self._verifier.deviations()

    def notices(self) -> list[str]:
        """Return what was wrong with rules that were read back, for people."""
        return self._verifier.reasons()

    def counts(self) -> EnforcerCounts:
        """Return what has happened since the start."""
        return EnforcerCounts(
            edits=self._installer.edits,
            refusals=self._installer.refusals,
            errors=dict(self._installer.errors),
            repaired=dict(self._verifier.repaired),
            contested=tuple(self._verifier.contested()),
        )


def _rules(compiled: CompiledPlan) -> RuleSet:
    """Return the rules that this enforcer's compiler has made."""
    assert isinstance(compiled, RuleSet)
    return compiled
