"""The state of the controller of an optical fabric at one moment, as one immutable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.circuits.fabric.optical_fabric import Circuit
from controller.circuits.planning.circuit_plan import CircuitPlan, ShardPlan
from controller.core.desired_state import AdmittedJob


@dataclass(frozen=True)
class StageNow:
    """A change of circuits that is under way: the number of the stage, of how many, and what is being done in it."""

    number: int
    of: int
    doing: str


@dataclass(frozen=True)
class ServerRow:
    """What is known of the agent of a server.

    Attributes:
        server: its name.
        needed: whether it takes part in a job.
        heard_seconds: since it asked last; ``None``: never since the start.
        confirmed: whether it has the newest table.
    """

    server: str
    needed: bool
    heard_seconds: float | None
    confirmed: bool


@dataclass(frozen=True, eq=False)
class CircuitState:
    """Jobs, circuits and routes.

    Attributes:
        jobs: by position.
        epoch: of the rules that panels were given last.
        plan: of the jobs; ``None``: none has been made yet.
        planned: the revisions of the jobs in it, by name.
        lit: the circuits that panels hold, as far as is known; ``None``: not all panels have been read yet.
        faults: why circuits of the plan carry nothing.
        served: how servers send.
        cut_off: the jobs whose servers do not all reach each other.
        stage: ``None``: no change is under way.
        trouble: why there is no plan of the newest jobs; empty: there is, or it is being made.
        lossy: why jobs lost packets in the last change; empty: they did not have to.
    """

    jobs: tuple[AdmittedJob, ...] = ()
    epoch: int = 0
    plan: CircuitPlan | None = None
    planned: Mapping[str, str] = field(default_factory=dict)
    lit: frozenset[Circuit] | None = None
    faults: Mapping[Circuit, str] = field(default_factory=dict)
    served: tuple[ShardPlan, ...] = ()
    cut_off: tuple[str, ...] = ()
    stage: StageNow | None = None
    trouble: str = ""
    lossy: str = ""

    def job(self, name: str) -> AdmittedJob | None:
        """Return the job of that name, or ``None``."""
        return next((job for job in self.jobs if job.name == name), None)
