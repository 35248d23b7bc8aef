"""Plans of several policies beside the ideal switch and a fat tree that costs as much as the circuits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.circuit_plan import POLICIES, CircuitPlan, plan_circuits
from controller.model.errors import InputError
from controller.model.job import Job

FAT_TREE_OF_EQUAL_COST = 3.2
"""The time on a fat tree of equal cost over that on the ideal switch, by the mean of the prices that TopoOpt's authors
give. The fat tree has no other loss: it is taken at its best."""
SPLIT = "+split"
SPLIT_PATHS = 4
"""Most paths to a destination in policies that end with ``SPLIT``."""
COMPARED = ("totient", "search", "search" + SPLIT)


def policy_and_paths(name: str, field: str = "policies") -> tuple[str, int]:
    """Return the policy of a name such as ``search`` or ``search+split``, and the most paths to a destination.

    Raises:
        InputError: there is no such policy.
    """
    policy = name.removesuffix(SPLIT)
    if policy not in POLICIES:
        among = ", ".join(f"{each}, {each}{SPLIT}" for each in POLICIES)
        raise InputError(f"on circuits there are {among}", field=field, value=name)
    return policy, SPLIT_PATHS if name.endswith(SPLIT) else 1


def compared(
    fabric: OpticalFabric,
    jobs: Sequence[tuple[str, Job]],
    names: Sequence[str],
    *,
    seed: int = 0,
    effort: float = 1.0,
    clock: Callable[[], float],
) -> Iterator[tuple[str, CircuitPlan]]:
    """Yield the plan of each policy.

    Raises:
        InputError: a policy has no such name, or no plan.
    """
    chosen = [policy_and_paths(name) for name in names]
    for name, (policy, paths) in zip(names, chosen, strict=True):
        yield (
            name,
            plan_circuits(fabric, jobs, policy=policy, seed=seed, effort=effort, paths=paths, clock=clock),
        )
