"""The plans of hosts for an enforcement task."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.southbound.enforcement.base import RuleInputs
from controller.southbound.enforcement.checked_plans import checked_plans
from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.enforcement.flow_encoding import NO_FLOWS
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS, HostPlans
from controller.southbound.enforcement.registry import ENFORCEMENTS, compile_host_plans


@dataclass(frozen=True)
class HostCompiler:
    """Makes the plans of all hosts; pure, so that any thread may call it.

    Attributes:
        settings: the options of the controller, of which enforcements take theirs.
    """

    settings: object

    def __call__(self, task: EnforcementTask) -> HostPlans:
        """Return the plans of hosts; none where the enforcement is one that switches carry out.

        Raises:
            InputError: the enforcement refuses the fabric, or there is none of this name.
        """
        planned, fabric = task.planned, task.fabric
        name = task.enforcement if planned is None else planned.enforcement
        if fabric is None or name is None:
            return NO_HOST_PLANS
        chosen = ENFORCEMENTS.named(name)
        if not chosen.by_hosts and (planned is None or not chosen.router_export):
            return NO_HOST_PLANS
        traffic, encoding = (Traffic.empty(), NO_FLOWS) if planned is None else (planned.traffic, planned.encoding)
        options = chosen.options_of(self.settings)
        paces = None if planned is None else planned.paces
        inputs = RuleInputs(fabric, traffic, encoding, _usable(task, fabric), options=options, paces=paces)
        if not chosen.by_hosts:
            return checked_plans(chosen, inputs)
        plans = compile_host_plans(name, inputs)
        # Until they have confirmed it, hosts go on with the paths of the plan before.
        return plans if planned is not None else dataclasses.replace(plans, mode="ecmp", taking_part=task.ends)


def _usable(task: EnforcementTask, fabric: Fabric) -> Fabric:
    return fabric if task.usable is None else task.usable
