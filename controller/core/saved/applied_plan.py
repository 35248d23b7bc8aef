"""The plan that the switches hold."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.plan import Bound
from controller.planning.plan_inputs import PlanInputs
from controller.routing import PreviousPlan


@dataclass(frozen=True)
class AppliedPlan:
    """The plan that was installed last; before the first installation, the newest plan.

    It names hosts and path classes, so it stays valid after a restart and a renumbering.

    Attributes:
        inputs: what it was made for; where they are the same again, this is the plan.
        bound: what was proved about it.
        links_down: cables and host links that were down, by the names that ``Fabric.without_links`` takes.
        drained: ids that were drained.
        enforced: whether its paths were on the switches (in mode ``ecmp`` they were not).
        enforcement: by which kind of rules, if they were.
        given: whether switches were given anything of it: ``False`` before the network is known for the first time.
    """

    epoch: int
    inputs: PlanInputs
    paths: PreviousPlan
    bound: Bound
    links_down: tuple[str, ...]
    drained: frozenset[str]
    enforced: bool
    enforcement: str
    given: bool = True
