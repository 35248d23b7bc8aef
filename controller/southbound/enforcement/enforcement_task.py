"""What is to be enforced, whoever enforces it: forwarding on a fabric, and a plan on top."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.fabric import Fabric
from controller.model.paces import Paces
from controller.model.switch_key import SwitchKey
from controller.model.traffic import Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding


@dataclass(frozen=True)
class PlannedFlows:
    """The flows of a plan, with their paths and source ports in an encoding made by this enforcement.

    ``paces``: of the rows of the encoding; ``None``: not known.
    """

    enforcement: str
    traffic: Traffic
    encoding: FlowEncoding
    paces: Paces | None = None


@dataclass(frozen=True)
class EnforcementTask:
    """What a compiler makes rules (or anything else that enforces a plan) from.

    Attributes:
        fabric: with the port numbers that are known; ``None``: no switch has a role yet.
        usable: the same without the cables that are drained; ``None``: none is.
        planned: the flows of the plan; ``None``: flows are spread over all paths, by ECMP.
        unknown: switches without a role, which forward nothing.
        learn: whether hosts may appear that no rule knows.
        enforcement: the one in force, also without a plan: it says who forwards.
        ends: where hosts forward, and there is no plan: the hosts (indices) that send or receive flows of jobs.
    """

    fabric: Fabric | None
    usable: Fabric | None = None
    planned: PlannedFlows | None = None
    unknown: frozenset[SwitchKey] = frozenset()
    learn: bool = False
    enforcement: str | None = None
    ends: frozenset[int] = frozenset()
