"""The OpenFlow rules of an enforcement task."""

from __future__ import annotations

from dataclasses import dataclass

from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.enforcement.registry import ENFORCEMENTS, compile_rules
from controller.southbound.forwarding.base import compile_base, compile_listening
from controller.southbound.rules.rule_set import RuleSet


@dataclass(frozen=True)
class OpenFlowCompiler:
    """Makes the rules of every OpenFlow switch; pure, so that any thread may call it.

    Attributes:
        ecmp_action: ``bundle`` or ``select``.
        settings: the options of the controller, of which enforcements take theirs.
    """

    ecmp_action: str
    settings: object

    def __call__(self, task: EnforcementTask) -> RuleSet:
        """Return the rules.

        Raises:
            InputError: the enforcement refuses the fabric, or there is none of this name.
        """
        listening = compile_listening(task.unknown)
        return RuleSet({**listening.switches, **self._forwarding(task).switches})

    def _forwarding(self, task: EnforcementTask) -> RuleSet:
        if task.fabric is None:
            return RuleSet()
        usable, learn, planned = task.usable, task.learn, task.planned
        if planned is None:
            return compile_base(task.fabric, usable=usable, ecmp_action=self.ecmp_action, learn=learn)
        return compile_rules(
            planned.enforcement,
            task.fabric,
            planned.traffic,
            planned.encoding,
            usable=usable,
            ecmp_action=self.ecmp_action,
            learn=learn,
            options=ENFORCEMENTS.named(planned.enforcement).options_of(self.settings),
        )
