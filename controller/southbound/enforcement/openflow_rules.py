"""The OpenFlow rules of an enforcement task."""

from __future__ import annotations

import dataclasses

from controller.model.traffic import Traffic
from controller.southbound.enforcement.base import CompiledFlows, RuleInputs
from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.enforcement.flow_encoding import NO_FLOWS
from controller.southbound.enforcement.registry import ENFORCEMENTS, compile_inputs
from controller.southbound.forwarding.base import compile_base, compile_listening
from controller.southbound.rules.rule_set import RuleSet


class OpenFlowCompiler:
    """Makes the rules of every OpenFlow switch. Equal tasks have equal rules, and any thread may call it.

    It keeps what it compiled last: most plans are for the network of the plan before, and few flows of theirs differ.
    """

    def __init__(self, ecmp_action: str, settings: object) -> None:
        """Compile with ``ecmp_action`` (``bundle`` or ``select``); enforcements take their options from settings."""
        self._ecmp_action, self._settings = ecmp_action, settings
        self._newest: tuple[tuple[object, ...], CompiledFlows] | None = None

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
        name = task.enforcement if planned is None else planned.enforcement
        enforcement = None if name is None else ENFORCEMENTS.named(name)
        if enforcement is None or (planned is None and not enforcement.by_hosts):
            return compile_base(task.fabric, usable=usable, ecmp_action=self._ecmp_action, learn=learn)
        options = enforcement.options_of(self._settings)
        traffic, encoding = (Traffic.empty(), NO_FLOWS) if planned is None else (planned.traffic, planned.encoding)
        inputs = RuleInputs(task.fabric, traffic, encoding, usable or task.fabric, self._ecmp_action, learn, options)
        if not enforcement.incremental:
            return compile_inputs(enforcement.name, inputs)
        # Reference and value are read and written at once, so that each thread sees both of one compilation.
        newest, asked = self._newest, (enforcement, inputs.fabric, inputs.usable, learn, options)
        if newest is not None and newest[0] == asked:
            inputs = dataclasses.replace(inputs, before=newest[1])
        rules = compile_inputs(enforcement.name, inputs)
        self._newest = asked, CompiledFlows(inputs.blocks, rules)
        return rules
