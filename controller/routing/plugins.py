"""Policies of other distributions: found by entry point, loaded at the first look-up.

A distribution registers a policy as follows (``examples/policy-plugin`` is a complete example)::

    [project.entry-points."fairspine.policies"]
    shortest = "my_package.shortest:POLICY"

The entry point's object is a ``Policy``, and its ``name`` is the entry point's. It is loaded at the first look-up and
not when this module is imported, since the plug-in imports this package itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.routing.base import Policy, Result
from controller.routing.validate import InvalidAssignmentError, validate_assignment

GROUP = "fairspine.policies"


class PolicyRegistry(Mapping[str, Policy]):
    """Policies by name: the built-in ones, then plug-ins in order of their names.

    A plug-in that cannot be used is left out; ``named`` gives the reason. A broken plug-in does not affect others.
    """

    def __init__(self, built_in: Mapping[str, Policy], found: Iterable[EntryPoint] | None = None) -> None:
        """Create the registry; entry points are loaded at the first look-up.

        Args:
            built_in: the built-in policies by name.
            found: the entry points; ``None``: those of the installed distributions.
        """
        self._built_in = built_in
        self._found = found
        self._policies: dict[str, Policy] | None = None
        self._failures: dict[str, str] = {}

    def named(self, name: str, *, field: str = "policy") -> Policy:
        """Return the policy of this name.

        Args:
            name: the name of the policy.
            field: the field that an error names.

        Raises:
            InputError: there is none, or it is a plug-in that cannot be used.
        """
        if name in self:
            return self[name]
        reason = self._failures.get(name, f"no policy has this name; there are {', '.join(self)}")
        raise InputError(reason, field=field, value=name)

    def failures(self) -> Mapping[str, str]:
        """Return why plug-ins cannot be used, by their names."""
        self._all()
        return self._failures

    def __getitem__(self, name: str) -> Policy:
        """Return the policy of this name; ``KeyError`` if there is none."""
        # Finding a built-in policy needs no search of the installed distributions.
        return self._built_in[name] if name in self._built_in else self._all()[name]

    def __contains__(self, name: object) -> bool:
        """Return whether a usable policy has this name."""
        return name in self._built_in or name in self._all()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, the built-in ones first."""
        return iter(self._all())

    def __len__(self) -> int:
        """Return the number of usable policies."""
        return len(self._all())

    def _all(self) -> dict[str, Policy]:
        if self._policies is None:
            self._policies = dict(self._built_in)
            found = entry_points(group=GROUP) if self._found is None else self._found
            for point in sorted(found, key=lambda each: each.name):
                self._load(point, self._policies)
        return self._policies

    def _load(self, point: EntryPoint, policies: dict[str, Policy]) -> None:
        try:
            policy = point.load()
        except Exception as error:  # A plug-in is third-party code: it may raise anything.
            self._failures[point.name] = f"the plug-in {point.value} cannot be loaded: {type(error).__name__}: {error}"
            return
        if not isinstance(policy, Policy):
            self._failures[point.name] = (
                f"the plug-in {point.value} is a {type(policy).__name__}, not a fairspine.Policy"
            )
        elif policy.name != point.name:
            self._failures[point.name] = f"the plug-in {point.value} has the name {policy.name!r}, not {point.name!r}"
        elif point.name not in policies:
            policies[point.name] = policy


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
