"""One step of the controller, as a pure function: what is known now -> fabric, plan, rules.

It may take long (solving, compiling), so it runs off the event loop; it reads no clock but the one it is given, and
touches nothing but its arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controller.config import Settings
from controller.model.fabric import Fabric
from controller.model.observed import Observed
from controller.model.plan import Plan
from controller.model.traffic import Traffic
from controller.planning.make_plan import make_plan
from controller.routing import Previous
from controller.southbound.base import compile_listening
from controller.southbound.cabling import Survey, survey
from controller.southbound.per_flow import compile_per_flow
from controller.southbound.rules import RuleSet
from controller.workload.expand import JobTraffic, combine


@dataclass(frozen=True, eq=False)
class Admitted:
    """A job that was accepted: its document as pushed, and its flows with their UDP source ports."""

    name: str
    document: bytes
    traffic: JobTraffic


@dataclass(frozen=True)
class Step:
    """What one step came to.

    Attributes:
        epoch: grows by one whenever the plan or the rules are computed anew; the cookies carry it.
        plan: ``None`` while the fabric is not known.
        rules: what every switch should hold.
        names: switch names by datapath id, for people.
        unknown: connected switches whose role nobody knows yet (discovery alone): they only listen.
    """

    epoch: int = 0
    survey: Survey = field(default_factory=lambda: Survey(None, ()))
    jobs: tuple[Admitted, ...] = ()
    traffic: Traffic = field(default_factory=Traffic.empty)
    plan: Plan | None = None
    previous: Previous | None = None
    rules: RuleSet = field(default_factory=RuleSet)
    names: Mapping[int, str] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()

    @property
    def fabric(self) -> Fabric | None:
        return self.survey.fabric


def advance(
    settings: Settings,
    intended: Fabric | None,
    observed: Observed,
    jobs: tuple[Admitted, ...],
    before: Step,
    clock: Callable[[], float],
) -> Step:
    """The next step. Where neither fabric nor jobs changed, the same plan and rules under the same epoch.

    Args:
        intended: the fabric of the file; ``None``: discovery alone.
        before: the step before this one; its plan is what the new one stays close to.
        clock: seconds, for the policy's own time.
    """
    found = survey(
        intended,
        observed,
        before=before.fabric,
        host_gbps=settings.discovered_host_gbps,
        uplink_gbps=settings.discovered_uplink_gbps,
    )
    if found.fabric is None:
        return _listening(found, observed, jobs, before)
    same_fabric = before.fabric is not None and before.fabric.version == found.fabric.version
    same_learning = _learns(intended, found) == _learns(intended, before.survey)
    unknown = frozenset(observed.switches - found.fabric.switch_by_dpid.keys()) if intended is None else frozenset()
    same = same_fabric and same_learning and jobs == before.jobs and unknown == before.unknown
    if same and before.plan is not None:
        return dataclasses.replace(before, survey=found, jobs=jobs)
    traffic = combine([job.traffic for job in jobs])
    plan = make_plan(
        found.fabric,
        traffic,
        policy=settings.policy,
        seed=settings.seed,
        previous=before.previous,
        intended=intended,
        clock=clock,
    )
    rules = compile_per_flow(
        found.fabric, traffic, plan.assignment, ecmp_action=settings.ecmp_action, learn=_learns(intended, found)
    )
    rules = RuleSet({**compile_listening(unknown).switches, **rules.switches})
    previous = Previous.of(found.fabric, traffic, plan.assignment)
    names = {dpid: switch.name for dpid, switch in found.fabric.switch_by_dpid.items()}
    return Step(before.epoch + 1, found, jobs, traffic, plan, previous, rules, names, unknown)


def _learns(intended: Fabric | None, found: Survey) -> bool:
    """Whether leaves send unknown ARP here: where hosts can turn up that no rule knows."""
    return intended is None or bool(found.hosts_unplaced)


def _listening(found: Survey, observed: Observed, jobs: tuple[Admitted, ...], before: Step) -> Step:
    """No host has been heard yet: no switch's role is known, so all of them only listen."""
    changed = observed.switches != before.unknown
    rules = compile_listening(observed.switches)
    return Step(before.epoch + changed, found, jobs, rules=rules, unknown=observed.switches)
