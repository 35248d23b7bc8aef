"""All enforcements by name, and the entry points to them.

The built-in ones are modules of this folder; a distribution registers another one as follows
(``examples/enforcement-plugin`` is a complete example)::

    [project.entry-points."fairspine.enforcements"]
    exact_port = "my_package:ENFORCEMENT"

The entry point's object is an ``Enforcement``, and its ``name`` is the entry point's.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

import numpy as np

from controller.model.assignment import Assignment
from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS
from controller.model.choices.plugin_registry import PluginRegistry
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.traffic import Collective, Traffic
from controller.southbound.enforcement.base import NO_OPTIONS, Enforcement, OptionValues, RuleInputs
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.host_plans import HostPlans
from controller.southbound.rules.rule_set import RuleSet

NEEDS_FILE = "agents of hosts carry out its plans, and only a fabric file (--fabric) says which hosts these are"
"""Why an enforcement by hosts is refused where the network is discovered."""

GROUP = "fairspine.enforcements"
"""The group of the entry points of plug-ins."""


def _built_in(name: str) -> Enforcement:
    value: Enforcement = import_module(f"{__package__}.{name}").ENFORCEMENT
    assert value.name == name
    return value


BUILT_IN = {name: _built_in(name) for name in BUILT_IN_ENFORCEMENTS}

ENFORCEMENTS = PluginRegistry(Enforcement, GROUP, BUILT_IN)
"""The built-in enforcements, then those of installed distributions."""


def encode_flows(fabric: Fabric, traffic: Traffic, assignment: Assignment, enforcement: str) -> FlowEncoding:
    """Return the source port of every row of an assignment, as an enforcement tells flows apart.

    Raises:
        InputError: no enforcement has this name; it cannot enforce one of the flows; two hosts have more flows than
            there are ports for them; or the result of a plug-in is not valid.
        ValueError: a flow is split whose port is unknown.
    """
    chosen = ENFORCEMENTS.named(enforcement)
    if not chosen.spreads:
        check_order(traffic.collectives, enforcement)
    encoding = chosen.encode(fabric, traffic, assignment)
    if enforcement not in BUILT_IN:
        _check_encoding(enforcement, assignment, encoding)
    return encoding


def compile_rules(
    enforcement: str,
    fabric: Fabric,
    traffic: Traffic,
    encoding: FlowEncoding,
    *,
    usable: Fabric | None = None,
    ecmp_action: str = "bundle",
    learn: bool = False,
    options: OptionValues = NO_OPTIONS,
) -> RuleSet:
    """Return the rules of every switch, by datapath id.

    Args:
        enforcement: the name of the enforcement.
        fabric: see ``RuleInputs``.
        traffic: see ``RuleInputs``.
        encoding: made by the same enforcement.
        usable: the fabric without the cables that are drained; ``None``: none is.
        ecmp_action: ``bundle`` or ``select``.
        learn: send ARP for unknown targets to the controller.
        options: see ``Enforcement.options``.

    Raises:
        InputError: no enforcement has this name; it refuses the fabric; or the result of a plug-in is not valid.
    """
    return compile_inputs(
        enforcement, RuleInputs(fabric, traffic, encoding, usable or fabric, ecmp_action, learn, options)
    )


def compile_inputs(enforcement: str, inputs: RuleInputs) -> RuleSet:
    """Return the rules of every switch, by datapath id; ``compile_rules`` says what it raises."""
    chosen = ENFORCEMENTS.named(enforcement)
    chosen.check_fabric(inputs.fabric, inputs.options)
    rules = chosen.compile(inputs)
    if enforcement not in BUILT_IN:
        _check_rules(enforcement, inputs.fabric, rules)
    return rules


def compile_host_plans(enforcement: str, inputs: RuleInputs) -> HostPlans:
    """Return what hosts are to do.

    Raises:
        InputError: no enforcement has this name; it refuses the fabric; or switches carry out its plans.
    """
    chosen = ENFORCEMENTS.named(enforcement)
    if chosen.host_plans is None:
        raise InputError("switches carry out its plans, and not hosts", field="enforcement", value=enforcement)
    chosen.check_fabric(inputs.fabric, inputs.options)
    return chosen.host_plans(inputs)


def check_order(collectives: Iterable[Collective], enforcement: str) -> None:
    """See whether the packets of jobs get the paths that the jobs allow.

    Raises:
        InputError: a job states ``order: any``, and the enforcement cannot spread the packets of a flow.
    """
    free = next((row.job for row in collectives if row.any_order), None)
    if free is None or ENFORCEMENTS.named(enforcement).spreads:
        return
    able = ", ".join(name for name, each in ENFORCEMENTS.items() if each.spreads)
    reason = f"{enforcement} enforcement does not spread the packets of {free} over several paths (as {able} does)"
    raise InputError(reason, field="order", value="any")


def rule_enforcements() -> list[str]:
    """Return the names of the enforcements whose plans switches carry out, by rules."""
    return [name for name, each in ENFORCEMENTS.items() if not (each.by_hosts or each.needs_routers)]


def host_enforcements() -> list[str]:
    """Return the names of the enforcements whose plans hosts carry out."""
    return [name for name, each in ENFORCEMENTS.items() if each.by_hosts]


def on_routers(name: str) -> bool:
    """Return whether an enforcement works where all switches are routers: by hosts, or by static configuration."""
    chosen = ENFORCEMENTS.named(name)
    return chosen.by_hosts or bool(chosen.router_export)


def _check_encoding(name: str, assignment: Assignment, encoding: object) -> None:
    """See whether what a plug-in returned are ports of the rows of the assignment.

    Raises:
        InputError: they are not.
    """
    if not isinstance(encoding, FlowEncoding):
        raise _unusable(name, f"encode returned {type(encoding).__name__}, not FlowEncoding")
    for column in ("flow", "path", "share"):
        if not np.array_equal(getattr(encoding, column), getattr(assignment, column)):
            raise _unusable(name, f"the column {column} of encode's result is not that of the assignment")
    ports = np.asarray(encoding.udp_src)
    if ports.shape != assignment.flow.shape or ((ports < 0) | (ports > MAX_PORT)).any():
        raise _unusable(name, "encode did not return one UDP source port for each row")


def _check_rules(name: str, fabric: Fabric, rules: object) -> None:
    """See whether what a plug-in returned are the rules of every OpenFlow switch.

    Raises:
        InputError: they are not.
    """
    if not isinstance(rules, RuleSet):
        raise _unusable(name, f"compile returned {type(rules).__name__}, not RuleSet")
    missing = [fabric.switch_by_key[dpid].name for dpid in fabric.datapath_ids if dpid not in rules.switches]
    if missing:
        raise _unusable(name, f"compile returned no rules for {missing[0]}")


def _unusable(name: str, reason: str) -> InputError:
    return InputError(f"its result cannot be used: {reason}", field="enforcement", value=name)
