"""The state of the controller at one moment, as one immutable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.core.desired_state import AdmittedJob, DesiredState
from controller.core.plan_candidate import PlanCandidate
from controller.core.ports.enforcer import CompiledPlan
from controller.core.saved.applied_plan import AppliedPlan
from controller.core.speeds.job_speeds import JobSpeeds
from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState
from controller.model.paces import Paces
from controller.model.plan import Plan
from controller.model.switch_key import SwitchKey
from controller.model.traffic import Traffic
from controller.planning.drain import Drain
from controller.southbound.cabling.survey import Survey
from controller.southbound.enforcement.flow_encoding import FlowEncoding


@dataclass(frozen=True)
class ControllerState:
    """The observed, desired, planned and installed state at one moment. Readers take all values from one state.

    Attributes:
        network: the observed state.
        epoch: of the plan; grows by one whenever plan or rules are recomputed; the cookies carry it.
        candidate: the plan for the desired state; ``None`` while the fabric is not known.
        encoding: the source ports that hosts should use, and the paths behind them; set together with a candidate. In
            mode ``frozen``, the encoding that hosts were given before.
        paces: of the rows of ``encoding``; ``None`` in mode ``ecmp``.
        applied: the plan that the switches hold; in mode ``frozen`` that is not the newest one.
        compiled: what the network should hold (the rules of every OpenFlow switch); ``None``: leave it as it is.
        enforced: epoch of it.
        names: switch names by key, for people.
        unknown: connected switches whose role is not known yet (discovery alone): they only listen.
        network_known: whether the network is known well enough for rules. While switches have only begun to connect,
            most of it seems to be missing, and the rules that they hold from before are better than rules for that.
        saved_fabric: the fabric as it was before a restart, until it is observed again.
        last_known_fabric: the newest fabric of a state with ``network_known``.
        changes: (cable or host link, up) that came or went since then.
        speeds: of the jobs, by ``compiled``.
    """

    epoch: int = 0
    survey: Survey = field(default_factory=lambda: Survey(None, ()))
    network: NetworkState | None = None
    desired: DesiredState = field(default_factory=DesiredState)
    candidate: PlanCandidate | None = None
    encoding: FlowEncoding | None = None
    paces: Paces | None = None
    applied: AppliedPlan | None = None
    compiled: CompiledPlan | None = None
    enforced: int = -1
    names: Mapping[SwitchKey, str] = field(default_factory=dict)
    unknown: frozenset[SwitchKey] = frozenset()
    network_known: bool = False
    saved_fabric: Fabric | None = None
    last_known_fabric: Fabric | None = None
    changes: tuple[tuple[str, bool], ...] = ()
    speeds: JobSpeeds = field(default_factory=JobSpeeds)

    @property
    def fabric(self) -> Fabric | None:
        """The fabric as observed; ``None`` while too little is known."""
        return self.survey.fabric

    @property
    def jobs(self) -> tuple[AdmittedJob, ...]:
        """Admitted jobs of the desired state, by position."""
        return self.desired.jobs

    @property
    def plan(self) -> Plan | None:
        """The candidate's plan; ``None`` while the fabric is not known."""
        return None if self.candidate is None else self.candidate.plan

    @property
    def traffic(self) -> Traffic:
        """The flows that the candidate places; empty without a candidate."""
        return Traffic.empty() if self.candidate is None else self.candidate.traffic

    @property
    def drain(self) -> Drain:
        """The effect of drains on the candidate's plan; empty without a candidate."""
        return Drain() if self.candidate is None else self.candidate.drain
