"""A plan for what is wanted on a fabric: what a step makes and a preview tries. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from controller.config import Settings, options_of
from controller.model.enforcement import Enforcement
from controller.model.fabric import Fabric
from controller.model.plan import Bound, Plan
from controller.model.traffic import Traffic
from controller.planning.basis import Basis, fabric_basis, traffic_basis
from controller.planning.drain import Drain, drain, without_drained
from controller.planning.headroom import with_headroom
from controller.planning.kept_paths import plan_from_paths
from controller.planning.make_plan import make_plan
from controller.routing import Previous
from controller.service.wanted import Wanted
from controller.workload.expand import combine


@dataclass(frozen=True)
class Memory:
    """The plan that the switches were given last (before they were given any: the newest one).

    In terms that outlive a restart and a renumbering.

    Attributes:
        basis: what it was made for; where that is so again, this is the plan.
        bound: what was proved about it.
        links_down: cables and host links that were down, by the names that ``Fabric.without_links`` takes.
        drained: ids that were drained.
        enforced: whether its paths were on the switches (in mode ``ecmp`` they were not).
        enforcement: by which kind of rules, if they were.
        given: whether switches were given anything of it: ``False`` before the network is known for the first time.
    """

    epoch: int
    basis: Basis
    paths: Previous
    bound: Bound
    links_down: tuple[str, ...]
    drained: frozenset[str]
    enforced: bool
    enforcement: Enforcement
    given: bool = True


@dataclass(frozen=True)
class Draft:
    """A plan, and what it was made for.

    Attributes:
        drain: which drained cables carry nothing, and which are needed all the same.
        usable: the fabric without the former.
        planned_on: ``usable`` without headroom.
    """

    drain: Drain
    usable: Fabric
    planned_on: Fabric
    traffic: Traffic
    basis: Basis
    plan: Plan

    @cached_property
    def paths(self) -> Previous:
        """Where every flow goes, to be remembered."""
        return Previous.of(self.planned_on, self.traffic, self.plan.assignment)


def make_draft(
    settings: Settings,
    intended: Fabric | None,
    fabric: Fabric,
    wanted: Wanted,
    memory: Memory | None,
    clock: Callable[[], float],
    *,
    before: Draft | None = None,
    take: Previous | None = None,
) -> Draft:
    """The plan for a fabric: the same as it is, if nothing that it depends on has changed, else one near it.

    Args:
        before: the newest draft.
        take: paths that flows are to have wherever they are live; the others stay where they are.
    """
    aside = drain(fabric, wanted.drained)
    usable = without_drained(fabric, aside)
    planned_on = with_headroom(usable, settings.headroom)
    reference = None if intended is None else with_headroom(intended, settings.headroom)
    traffic = combine(wanted.traffic)
    planned = [job for job in wanted.jobs if job.traffic is not None]
    basis = Basis(
        fabric_basis(planned_on),
        traffic_basis((job.name, job.revision, job.ports) for job in planned),
        settings.policy,
        settings.seed,
    )

    def draft(plan: Plan) -> Draft:
        return Draft(aside, usable, planned_on, traffic, basis, plan)

    recalled = [] if memory is None else [memory.paths]
    if take is not None:
        paths = [take, *recalled] if before is None else [take, before.paths]
        status = "earlier paths"
    elif before is not None and before.basis == basis and before.planned_on.version == planned_on.version:
        return draft(before.plan)
    elif memory is not None and memory.basis == basis:
        paths, status = recalled, "kept"
    else:
        return draft(
            make_plan(
                planned_on,
                traffic,
                policy=settings.policy,
                seed=settings.seed,
                previous=memory.paths if memory is not None else None,
                intended=reference,
                options=options_of(settings),
                clock=clock,
            )
        )
    bound = memory.bound if memory is not None and memory.basis == basis else Bound()
    return draft(
        plan_from_paths(
            planned_on,
            traffic,
            paths,
            policy=settings.policy,
            status=status,
            bound=bound,
            intended=reference,
            clock=clock,
        )
    )
