"""What is kept over a restart: the service's values to and from those of ``controller.store``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from controller.model.enforcement import ENFORCEMENTS, Enforcement
from controller.model.fabric import Fabric
from controller.model.plan import Bound
from controller.planning.basis import Basis
from controller.planning.drain import known
from controller.planning.kept_paths import moved_flows
from controller.rest.backend import Mode
from controller.routing import Previous
from controller.service.draft import Memory
from controller.service.step import Step, links_down
from controller.service.wanted import UNPLACED, Admitted, Wanted
from controller.store.values import Change, Kept, KeptJob, KeptMode, KeptPaths, PlanRecord


class Keeping(Protocol):
    """What the service needs of ``controller.store.Store``. All of it may block for long."""

    def commit(self, change: Change) -> None:
        """Keep a change, all of it or nothing.

        Raises:
            StoreError: it is not kept.
        """

    def plans(self, before: int | None = None, limit: int = 50) -> Sequence[PlanRecord]:
        """Plans without their paths, newest first."""

    def plan(self, epoch: int) -> PlanRecord:
        """One plan with its paths.

        Raises:
            NotFoundError: it is not kept.
        """


def restore(kept: Kept, intended: Fabric | None, option: str) -> Step:
    """What a start begins with: the state before it, as far as that does not depend on the network.

    Args:
        option: of the enforcement.
    """
    mode: Mode = "planned" if kept.mode is None else _MODES[kept.mode.mode]
    jobs = tuple(_admitted(job) for job in kept.jobs)
    wanted = Wanted(jobs, kept.drained, mode, _ENFORCEMENTS[_enforcement(kept.mode, option)])
    memory = None if kept.plan is None else memory_of(kept.plan)
    recalled = None
    if intended is not None and memory is not None:
        recalled = intended.without_links(known(intended, memory.links_down))
    return Step(epoch=kept.epoch, wanted=wanted, memory=memory, recalled=recalled)


def _enforcement(kept: KeptMode | None, option: str) -> str:
    """Whoever spoke last has it: what was set on the running controller, until the option is another one."""
    if kept is None or kept.enforcement is None or kept.option != option:
        return option
    return kept.enforcement


_MODES: Mapping[str, Mode] = {"planned": "planned", "ecmp": "ecmp", "frozen": "frozen"}
_ENFORCEMENTS: Mapping[str, Enforcement] = {name: name for name in ENFORCEMENTS}


def _admitted(job: KeptJob) -> Admitted:
    return Admitted(
        name=job.name,
        document=job.document,
        revision=job.revision,
        position=job.position,
        changed=job.changed,
        by=job.by,
        ports=job.udp_src,
        traffic=None,
        left_out=UNPLACED,
    )


def kept_job(job: Admitted) -> KeptJob:
    """A job to be kept."""
    return KeptJob(job.name, job.position, job.document, job.ports, job.revision, job.changed, job.by)


def memory_of(record: PlanRecord) -> Memory:
    """A kept plan as what switches hold. Without paths it was base forwarding alone that they were given."""
    paths = record.paths
    return Memory(
        epoch=record.epoch,
        basis=Basis(record.fabric_version, record.traffic_version, record.policy, record.seed),
        paths=NO_PATHS if paths is None else paths_of(paths),
        bound=Bound(record.bound_split, record.bound_single),
        links_down=tuple(record.links_down),
        drained=frozenset(record.drained),
        enforced=paths is not None and record.mode != "ecmp",
        enforcement=_ENFORCEMENTS[record.enforcement],
    )


def paths_of(paths: KeptPaths) -> Previous:
    return Previous(paths.hosts, paths.paths, paths.key, paths.path, paths.share)


NO_PATHS = Previous((), (), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0))
"""The memory of nothing."""


def plan_record(
    step: Step, before: Step, *, at: float, cause: str = "", by: str | None = None, rollback_of: int | None = None
) -> PlanRecord | None:
    """The record of a step's plan; ``None`` where there is none to keep: no new plan, or none that switches are given.

    ``cause``: what somebody (``by``) did; what the network did stands in the step.

    In mode ``frozen`` it is of what the switches hold: after a restart they are given the same again.
    """
    draft, fabric = step.draft, step.fabric
    if draft is None or fabric is None or (step.epoch == before.epoch and before.draft is not None):
        return None
    if step.wanted.mode == "frozen" and before.wanted.mode == "frozen":
        # The switches are given nothing new: what they hold is on record.
        return None
    paths: Previous | None = draft.paths
    basis, down, drained = draft.basis, links_down(fabric), step.wanted.drained
    enforcement = step.wanted.enforcement
    if step.wanted.mode == "frozen":
        held = step.memory
        if held is None or not held.given:
            return None
        paths = held.paths if held.enforced else None
        basis, down, drained = held.basis, held.links_down, held.drained
        enforcement = held.enforcement
    moved = 0
    if before.memory is not None:
        moved = len(moved_flows(draft.traffic, before.memory.paths.on(fabric), draft.paths))
    return PlanRecord(
        epoch=step.epoch,
        at=at,
        cause=_cause(cause, step, before),
        by=by,
        policy=basis.policy,
        seed=basis.seed,
        mode=step.wanted.mode,
        enforcement=enforcement,
        fabric_version=basis.fabric,
        traffic_version=basis.traffic,
        links_down=down,
        drained=tuple(sorted(drained)),
        jobs=tuple(job.name for job in step.jobs if job.traffic is not None),
        min_speed=draft.plan.objective.min_speed,
        min_level=draft.plan.objective.min_level,
        bound_split=draft.plan.bound.split,
        bound_single=draft.plan.bound.single,
        gap=draft.plan.gap,
        seconds=draft.plan.seconds,
        flows=draft.traffic.n_flows,
        moved=moved,
        unroutable=len(draft.plan.unroutable),
        rollback_of=rollback_of,
        paths=None if paths is None else KeptPaths(paths.hosts, paths.paths, paths.key, paths.path, paths.share),
    )


def _cause(asked: str, step: Step, before: Step) -> str:
    """Why there is a new plan, for people."""
    causes = [asked] if asked else []
    causes += [f"{name} {'up' if up else 'down'}" for name, up in step.changes[:5]]
    if len(step.changes) > 5:
        causes.append(f"and {len(step.changes) - 5} more")
    return ", ".join(causes) or ("the controller started" if before.draft is None else "the network changed")
