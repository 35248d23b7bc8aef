"""Rules of switches together with the plans of hosts, for enforcements by hosts on fabrics of OpenFlow switches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.southbound.enforcement.base import Enforcement
from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS, HostPlans
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.southbound.rules.rule import Rule, RuleKey
from controller.southbound.rules.rule_set import RuleSet


@dataclass(frozen=True)
class CarriedRules(RuleSet):
    """The rules of switches, and what hosts are to do.

    Attributes:
        hosts: the plans of hosts.
        needed: the rules of each switch that packets of hosts need to take the paths of their plans, by datapath id;
            empty: hosts send as without a plan.
    """

    hosts: HostPlans = field(default=NO_HOST_PLANS, compare=False)
    needed: Mapping[int, Mapping[RuleKey, Rule]] = field(default_factory=dict, compare=False)


class CarriedRulesCompiler:
    """Makes rules and plans of hosts. Equal tasks have equal rules, and any thread may call it."""

    def __init__(self, rules: OpenFlowCompiler, hosts: HostCompiler) -> None:
        """Use these compilers of the two."""
        self._rules, self._hosts = rules, hosts
        # Read and written as a whole, so that each thread sees both of one compilation.
        self._idle: tuple[Fabric, HostPlans] | None = None

    def __call__(self, task: EnforcementTask) -> CarriedRules:
        """Return them. Agents that ask are told to send without carriers where switches carry out the plan.

        Raises:
            InputError: the enforcement refuses the fabric, or there is none of this name.
        """
        name = task.enforcement if task.planned is None else task.planned.enforcement
        rules, fabric = self._rules(task), task.fabric
        if fabric is None:
            return CarriedRules(rules.switches)
        if name is None or not ENFORCEMENTS.named(name).by_hosts:
            return CarriedRules(rules.switches, self._idle_on(fabric))
        base = self._rules(dataclasses.replace(task, planned=None, enforcement=None))
        needed = {
            key: {rule.key: rule for rule in held.rules.values() if rule.key not in base[key].rules}
            for key, held in rules.switches.items()
        }
        return CarriedRules(rules.switches, self._hosts(task), needed)

    def _idle_on(self, fabric: Fabric) -> HostPlans:
        """Return plans of hosts that say nothing of packets."""
        kept = self._idle
        if kept is not None and kept[0] is fabric:
            return kept[1]
        plans = NO_HOST_PLANS
        for name, each in ENFORCEMENTS.items():
            if each.by_hosts and self._accepts(each, fabric):
                plans = self._hosts(EnforcementTask(fabric, enforcement=name))
                plans = dataclasses.replace(plans, idle=True, taking_part=frozenset())
                break
        self._idle = fabric, plans
        return plans

    def _accepts(self, enforcement: Enforcement, fabric: Fabric) -> bool:
        try:
            enforcement.check_fabric(fabric, enforcement.options_of(self._hosts.settings))
        except InputError:
            return False
        return True
