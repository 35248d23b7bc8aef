"""Policies of other distributions: found by entry point, loaded at the first look-up.

A distribution registers a policy as follows (``examples/policy-plugin`` is a complete example)::

    [project.entry-points."fairspine.policies"]
    shortest = "my_package.shortest:POLICY"

The entry point's object is a ``Policy``, and its ``name`` is the entry point's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.plugin_registry import PluginRegistry
from controller.model.traffic import Traffic
from controller.routing.base import Policy, Result
from controller.routing.validate import InvalidAssignmentError, validate_assignment

GROUP = "fairspine.policies"


class PolicyRegistry(PluginRegistry[Policy]):
    """Policies by name: the built-in ones, then plug-ins in order of their names."""

    def __init__(self, built_in: Mapping[str, Policy], points: Iterable[EntryPoint] | None = None) -> None:
        """Create the registry.

        Args:
            built_in: the built-in policies by name.
            points: the entry points; ``None``: those of the installed distributions.
        """
        super().__init__(Policy, GROUP, built_in, points)


def check_result(policy: Policy, fabric: Fabric, traffic: Traffic, result: object) -> None:
    """Check the result of a plug-in before it is used for computing or installing.

    Raises:
        InputError: it is no ``Result``, breaks a rule of assignments, or splits flows though the policy declares that
            it does not.
    """
    try:
        if not isinstance(result, Result) or not isinstance(result.assignment, Assignment):
            raise InvalidAssignmentError(f"returned {type(result).__name__}, not fairspine.Result")
        validate_assignment(fabric, traffic, result.assignment, enforceable=policy.enforceable)
        if result.assignment.is_split() and not policy.splits:
            raise InvalidAssignmentError("a flow is split, but the policy declares that it does not split flows")
    except InvalidAssignmentError as error:
        raise InputError(f"its result cannot be used: {error}", field="policy", value=policy.name) from None
