"""Inference: the jobs behind sightings."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from controller.learning.activity import cluster
from controller.learning.common_classes import with_common_classes
from controller.learning.components import components
from controller.learning.groups import groups_of
from controller.learning.iterations import JobIterations, find_iterations
from controller.learning.learned_job import LearnedGroup, LearnedJob, LearnedPhase
from controller.learning.marks import Marks, marks_of
from controller.learning.odometer import DEPTH, Odometers, Samples
from controller.learning.sightings import QpKey
from controller.learning.volumes import classes, volumes
from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import ANY_PORT

FlowKeys = Collection[tuple[int, int, int]]
"""(source address, destination address, UDP source port or ``ANY_PORT``) of flows."""

ELEPHANT_BYTES = 1_000_000
"""Bytes of a QP, in an iteration (or in a second where no period shows), from which it is part of a job."""
LEAST_SHARE = 0.001
"""The same, as a part of the highest volume of the component."""
SILENT_PERIODS, STEADY_SILENCE, SILENT_MARKS = 2.5, 30.0, 10
"""A QP has ended that is silent for so many periods (seconds, where no period shows) longer than others of its job, and
for so many times its usual time between marks."""
KEPT_ITERATIONS = 6
"""Iterations that the sightings which are kept of a QP should span ..."""
CERTAIN_ITERATIONS = 5
"""... once so many were seen of packets: their memory spans all that was seen before."""


class Component(NamedTuple):
    """The QPs that are connected, and what was seen of them; ``qp`` counts within the component."""

    numbers: IntArray
    keys: list[QpKey]
    samples: Samples
    marks: Marks


def is_pushed(key: QpKey, pushed: FlowKeys) -> bool:
    """Return whether a QP is one of a pushed job; those of jobs whose ports are not known have ``ANY_PORT``."""
    return (key.src, key.dst, key.udp_src) in pushed or (key.src, key.dst, ANY_PORT) in pushed


def split_components(
    odometers: Odometers, since: float, pushed: FlowKeys, rng: np.random.Generator, ended: Collection[int] = ()
) -> list[Component]:
    """Return the components of the QPs that were seen since a time, belong to no pushed job, and are not ``ended``.

    QPs from a host to itself are left out: their packets never reach a switch.
    """
    samples = odometers.samples(since)
    free = np.array(
        [key is not None and key.src != key.dst and not is_pushed(key, pushed) for key in odometers.keys],
        dtype=np.bool_,
    )
    free[np.array(list(ended), dtype=np.int64)] = False
    samples = samples.of(free[samples.qp])
    numbers = np.unique(samples.qp)
    if not len(numbers):
        return []
    keys = [key for number in numbers.tolist() if (key := odometers.keys[number]) is not None]
    hosts, place = np.unique([(key.src, key.dst) for key in keys], return_inverse=True)
    a, b = place.reshape(-1, 2).T.astype(np.int32)
    label = components(a, b, len(hosts))[a]
    rank = np.searchsorted(numbers, samples.qp)
    by_label = np.argsort(label[rank], kind="stable")
    bounds = np.searchsorted(label[rank][by_label], np.unique(label), side="left")
    found = []
    for rows in np.split(by_label, bounds[1:]):
        mine = np.unique(samples.qp[rows])
        local = np.searchsorted(mine, samples.qp[rows]).astype(np.int32)
        own = samples.of(rows)._replace(qp=local)
        found.append(
            Component(mine, [keys[i] for i in np.searchsorted(numbers, mine).tolist()], own, marks_of(own, rng))
        )
    return found


def ended_qps(component: Component, job: LearnedJob | None) -> list[int]:
    """Return the numbers of the QPs that have sent nothing for so long that they have ended, while others go on.

    QPs of which few packets are sampled are silent for long by chance: the time between their marks counts, too.
    """
    marks = component.marks
    if not len(marks.at):
        return []
    silence = STEADY_SILENCE if job is None or not job.period_seconds else SILENT_PERIODS * job.period_seconds
    qps = len(component.keys)
    count = np.bincount(marks.qp, minlength=qps)
    first, last = np.full(qps, np.inf), np.full(qps, -np.inf)
    np.minimum.at(first, marks.qp, marks.at)
    np.maximum.at(last, marks.qp, marks.at)
    between = (last - first) / np.maximum(count - 1, 1)
    silent = marks.at.max() - last > np.maximum(silence, SILENT_MARKS * between)
    numbers: list[int] = component.numbers[silent & (count > 1)].tolist()
    return numbers


def steady_volumes(samples: Samples, qps: int) -> FloatArray:
    """Return the bytes a second of each QP; NaN where it was seen once only."""
    first, last = np.searchsorted(samples.qp, np.arange(qps)), np.searchsorted(samples.qp, np.arange(qps), "right") - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = (samples.sent[last] - samples.sent[first]) / (samples.at[last] - samples.at[first])
    return np.where(rate > 0, rate, np.nan)


def infer_component(component: Component, rng: np.random.Generator) -> LearnedJob | None:
    """Return the job of a component; ``None`` if it has no QP that sends much."""
    qps = len(component.keys)
    if not len(component.marks.at):
        return None
    iterations = find_iterations(component.marks, rng)
    if iterations is None:
        return _steady_job(component, qps)
    clusters = cluster(iterations, component.marks, qps)
    found = volumes(iterations, clusters, component.samples, qps)
    groups: list[LearnedGroup] = []
    known = 0
    for k in range(len(clusters.profile)):
        members = np.flatnonzero(clusters.of_qp == k).astype(np.int32)
        snapped = classes(found, members)
        known += int(np.isfinite(snapped).sum())
        if not np.isfinite(snapped).any():
            continue
        # An edge that was seen is in the job, if its volume is not known yet: a missed edge costs far more.
        filled = np.where(np.isfinite(snapped), snapped, np.nanmedian(snapped))
        large = filled >= max(ELEPHANT_BYTES, LEAST_SHARE * float(np.nanmax(found.bytes)))
        keys = [component.keys[i] for i in members[large].tolist()]
        if keys:
            groups += groups_of(keys, filled[large], int(clusters.phase[k]))
    if not groups:
        return None
    groups.sort(key=lambda group: (group.phase, group.qps))
    before = np.concatenate(([clusters.end[-1] - 1], clusters.end[:-1]))
    idle = np.maximum(0.0, clusters.begin - before) * iterations.period_seconds
    seen = float(component.marks.at.max())
    confidence = known / qps * min(1.0, iterations.whole / 3)
    return LearnedJob(
        iterations.period_seconds, iterations.whole, tuple(groups), tuple(idle.tolist()), confidence,
        _last_begin(iterations, seen), seen,
        tuple(
            LearnedPhase(begin * iterations.period_seconds, end * iterations.period_seconds)
            for begin, end in zip(clusters.begin.tolist(), clusters.end.tolist(), strict=True)
        ),
    )  # fmt: skip


def _last_begin(iterations: JobIterations, seen: float) -> float:
    return float(iterations.begins[iterations.begins <= seen][-1])


def _steady_job(component: Component, qps: int) -> LearnedJob | None:
    rate = steady_volumes(component.samples, qps)
    if not np.isfinite(rate).any():
        return None
    filled = np.where(np.isfinite(rate), rate, np.nanmedian(rate))
    large = filled >= max(ELEPHANT_BYTES, LEAST_SHARE * float(filled.max()))
    keys = [component.keys[i] for i in np.flatnonzero(large).tolist()]
    groups = groups_of(keys, filled[large], 0) if keys else []
    if not groups:
        return None
    seen = float(component.marks.at.max())
    return LearnedJob(0.0, 0, tuple(groups), (), float(np.isfinite(rate).mean()) / 2, seen, seen)


def infer(
    odometers: Odometers, since: float, rng: np.random.Generator, pushed: FlowKeys = frozenset()
) -> list[LearnedJob]:
    """Return the jobs of all QPs that were seen since a time and are not pushed, in order of their names.

    QPs that have ended, while others of their job go on, are left out: those of a ring that has another order now.

    Sets how densely the sightings of each QP are kept from now on: so that they span some iterations.
    """
    looked = [(each, infer_component(each, rng)) for each in split_components(odometers, since, pushed, rng)]
    ended = {number for component, job in looked for number in ended_qps(component, job)}
    if ended:
        going_on = split_components(odometers, since, pushed, rng, ended)
        looked = [(each, infer_component(each, rng)) for each in going_on]
    found = []
    for component, job in looked:
        sampled = bool(component.samples.sampled.any())
        if job is not None and job.iterations >= (CERTAIN_ITERATIONS if sampled else 1):
            odometers.space(component.numbers, job.period_seconds * KEPT_ITERATIONS / DEPTH)
        elif not sampled and len(component.samples.at) >= 0.75 * DEPTH * len(component.numbers):
            # Full, and no period yet: look further back.
            odometers.space(component.numbers, 2 * float(np.ptp(component.samples.at)) / DEPTH)
        if job is not None:
            found.append(job)
    return sorted(with_common_classes(found), key=lambda job: job.name)
