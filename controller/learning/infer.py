"""Inference: the jobs behind sightings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from controller.learning.activity import cluster
from controller.learning.counted_iterations import counted_iterations
from controller.learning.equal_bytes import FEWEST_READINGS, SAME, iterations_of, single_iterations
from controller.learning.groups import groups_of, joined
from controller.learning.iterations import FEWEST, SILENT_PERIODS, JobIterations, find_iterations
from controller.learning.learned_job import LearnedGroup, LearnedJob, LearnedPhase
from controller.learning.marks import Marks, marks_of
from controller.learning.odometer import BoolArray, Odometers, Samples
from controller.learning.restarts import idle_times, starts
from controller.learning.sightings import QpKey
from controller.learning.volumes import Volumes, classes, volumes
from controller.model.choices.protocol import ROCE
from controller.model.fabric import FloatArray, IntArray
from controller.model.packets.flow_ports import port_code
from controller.model.paths.grouping import components
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import ANY_PORT

FlowKeys = Collection[tuple[int, int, int]]
"""(source address, destination address, UDP source port or ``ANY_PORT``) of flows."""

ELEPHANT_BYTES = 1_000_000
"""Bytes of a QP, in an iteration (or in a second where no period shows), from which it is part of a job."""
LEAST_SHARE = 0.001
"""The same, as a part of the highest volume of the component."""
SOME_PORT = -1
"""In place of the port in ``FlowKeys``: there is a flow of these hosts, whatever its port."""
ALL_PACKETS = port_code("any")
"""In the same place: there is a flow of all packets of these hosts."""
STEADY_SILENCE, SILENT_MARKS = 30.0, 10
"""A QP has ended that is silent for ``SILENT_PERIODS`` (so many seconds, where no period shows) longer than others of
its job, and for so many times its usual time between marks."""
KEPT_ITERATIONS = 6
"""Iterations that the sightings which are kept of a QP should span ..."""
CERTAIN_ITERATIONS = 5
"""... once so many were seen of packets: their memory spans all that was seen before."""


class Component(NamedTuple):
    """The QPs that are connected, and what was seen of them; ``qp`` counts within the component."""

    numbers: IntArray
    keys: list[QpKey]
    samples: Samples

    def without(self, ended: BoolArray) -> Component:
        """Return the QPs that are not among ``ended`` [Q]; they need not be connected."""
        place = np.cumsum(~ended, dtype=np.int32) - 1
        left = self.samples.of(~ended[self.samples.qp])
        keys = [self.keys[i] for i in np.flatnonzero(~ended).tolist()]
        return Component(self.numbers[~ended], keys, left._replace(qp=place[left.qp]))

    def within(self, begin: float, end: float) -> Component:
        """Return what was seen between two times, of the QPs that have sent then."""
        samples = self.samples.of((self.samples.at >= begin) & (self.samples.at < end))
        part = self._replace(samples=samples)
        rise = np.diff(samples.sent) * (np.diff(samples.qp) == 0)
        sent = np.bincount(samples.qp[1:], rise, len(self.keys)) + np.bincount(
            samples.qp, samples.sampled, len(self.keys)
        )
        return part.without(sent == 0)


_Jobs = list[tuple[Component, LearnedJob | None]]
_Inference = Callable[[Component, np.random.Generator], _Jobs]


def is_pushed(key: QpKey, pushed: FlowKeys) -> bool:
    """Return whether a QP is one of a pushed job; those of jobs whose ports are not known have ``ANY_PORT``.

    A QP whose own port is not known is one of any pushed job that has a flow of its hosts. TCP connections are one of
    any pushed job that has TCP flows of their hosts, for which ``pushed`` has ``ALL_TCP``.
    """
    if (key.src, key.dst, ALL_PACKETS) in pushed:
        return True
    if key.protocol != ROCE:
        return key[:3] in pushed
    if key.udp_src == ANY_PORT:
        return (key.src, key.dst, SOME_PORT) in pushed
    return (key.src, key.dst, key.udp_src) in pushed or (key.src, key.dst, ANY_PORT) in pushed


def seen_qps(odometers: Odometers, since: float, pushed: FlowKeys) -> Component:
    """Return the QPs that were seen since a time and belong to no pushed job, as if they were connected.

    QPs from a host to itself are left out: their packets never reach a switch.
    """
    last = odometers.last_seen() >= since
    keys = odometers.keys
    for number in np.flatnonzero(last).tolist():
        key = keys[number]
        last[number] = key is not None and key.src != key.dst and not (pushed and is_pushed(key, pushed))
    samples = odometers.samples(since, last)
    numbers = np.flatnonzero(np.bincount(samples.qp, minlength=len(keys))).astype(np.int32)
    place = np.zeros(len(keys), dtype=np.int32)
    place[numbers] = np.arange(len(numbers), dtype=np.int32)
    named = [key for number in numbers.tolist() if (key := keys[number]) is not None]
    return Component(numbers, named, samples._replace(qp=place[samples.qp]))


def split(seen: Component) -> Iterator[Component]:
    """Yield the connected components of some QPs; one by one, because their samples take much memory."""
    if not seen.keys:
        return
    hosts, place = np.unique([(key.src, key.dst) for key in seen.keys], return_inverse=True)
    a, b = place.reshape(-1, 2).T.astype(np.int32)
    label = components(a, b, len(hosts))[a]
    of_sample = label[seen.samples.qp]
    rank = np.empty(len(seen.keys), dtype=np.int32)
    for name in np.unique(label):
        mine = np.flatnonzero(label == name)
        rank[mine] = np.arange(len(mine), dtype=np.int32)
        own = seen.samples.of(np.flatnonzero(of_sample == name))
        yield Component(seen.numbers[mine], [seen.keys[i] for i in mine.tolist()], own._replace(qp=rank[own.qp]))


def silences(marks: Marks, qps: int) -> FloatArray:
    """Return for how many seconds each QP [Q] has sent nothing while others did; 0 where that may be chance.

    QPs of which few packets are sampled are silent for long by chance: the time between their marks counts, too.
    """
    if not len(marks.at):
        return np.zeros(qps)
    count = np.bincount(marks.qp, minlength=qps)
    first, last = np.full(qps, np.inf), np.full(qps, -np.inf)
    np.minimum.at(first, marks.qp, marks.at)
    np.maximum.at(last, marks.qp, marks.at)
    # Those without marks have neither.
    between = np.where(count > 0, last - first, 0.0) / np.maximum(count - 1, 1)
    silent = marks.at.max() - last
    return np.where((silent > SILENT_MARKS * between) & (count > 1), silent, 0.0)


def longest_pauses(samples: Samples, qps: int) -> FloatArray:
    """Return the longest time in seconds between marks of each QP [Q]; samples are in order of QPs and times."""
    same = samples.qp[1:] == samples.qp[:-1]
    risen = np.concatenate(([False], same & (np.diff(samples.sent) > 0)))
    active = np.flatnonzero(samples.sampled | risen)
    begin = np.where(samples.sampled[active], samples.at[active], samples.at[active - 1])
    again = samples.qp[active[1:]] == samples.qp[active[:-1]]
    pause = (begin[1:] - samples.at[active[:-1]])[again]
    longest = np.zeros(qps)
    np.maximum.at(longest, samples.qp[active[1:]][again], pause)
    return longest


def allowed_silence(job: LearnedJob | None) -> float:
    """Return the seconds of silence after which a QP has ended, while others of its job go on."""
    return STEADY_SILENCE if job is None or not job.period_seconds else SILENT_PERIODS * job.period_seconds


def steady_volumes(samples: Samples, qps: int) -> FloatArray:
    """Return the bytes a second of each QP; NaN where it was seen once only."""
    first, last = np.searchsorted(samples.qp, np.arange(qps)), np.searchsorted(samples.qp, np.arange(qps), "right") - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = (samples.sent[last] - samples.sent[first]) / (samples.at[last] - samples.at[first])
    return np.where(rate > 0, rate, np.nan)


def infer_component(
    component: Component, marks: Marks, rng: np.random.Generator, likely: float = 0.0
) -> LearnedJob | None:
    """Return the job of a component; ``None`` if it has no QP that sends much.

    Args:
        component: the QPs, and what was seen of them.
        marks: when they sent.
        rng: draws what is looked at of very many marks.
        likely: the period in seconds that the job had before a pause; 0: not known.
    """
    if not len(marks.at):
        return None
    iterations = find_iterations(marks, rng, likely)
    if iterations is None:
        return _steady_job(component, float(marks.at.max()))
    return _job_of(component, marks, iterations)


def _job_of(
    component: Component, marks: Marks, iterations: JobIterations, sizes: Volumes | None = None
) -> LearnedJob | None:
    """Return the job of a component whose iterations are known, and the bytes of its QPs (default: by ``volumes``)."""
    qps, seen = len(component.keys), float(marks.at.max())
    clusters = cluster(iterations, marks, qps)
    if sizes is None:
        sizes = volumes(iterations, clusters, component.samples, qps)
    groups: list[LearnedGroup] = []
    known = 0
    for k in range(len(clusters.profile)):
        members = np.flatnonzero(clusters.of_qp == k).astype(np.int32)
        snapped = classes(sizes, members)
        known += int(np.isfinite(snapped).sum())
        if not np.isfinite(snapped).any():
            continue
        # An edge that was seen is in the job, if its volume is not known yet: a missed edge costs far more.
        filled = np.where(np.isfinite(snapped), snapped, np.nanmedian(snapped))
        large = filled >= max(ELEPHANT_BYTES, LEAST_SHARE * float(np.nanmax(sizes.bytes)))
        keys = [component.keys[i] for i in members[large].tolist()]
        if keys:
            groups += groups_of(keys, filled[large], int(clusters.phase[k]))
    if not groups:
        return None
    groups.sort(key=lambda group: (group.phase, group.qps))
    before = np.concatenate(([clusters.end[-1] - 1], clusters.end[:-1]))
    idle = np.maximum(0.0, clusters.begin - before) * iterations.period_seconds
    return LearnedJob(
        iterations.period_seconds,
        iterations.whole,
        tuple(groups),
        tuple(idle.tolist()),
        known / qps * min(1.0, iterations.whole / 3) * _steadiness(sizes),
        _last_begin(iterations, seen),
        seen,
        tuple(
            LearnedPhase(begin * iterations.period_seconds, end * iterations.period_seconds)
            for begin, end in zip(clusters.begin.tolist(), clusters.end.tolist(), strict=True)
        ),
    )


def _steadiness(sizes: Volumes) -> float:
    """Return 1 where iterations are of equal bytes, less where they vary; of sampled packets alone, 1."""
    variations = sizes.variation[np.isfinite(sizes.variation)]
    return max(0.0, 1.0 - float(np.median(variations))) if len(variations) else 1.0


def _last_begin(iterations: JobIterations, seen: float) -> float:
    return float(iterations.begins[iterations.begins <= seen][-1])


def _steady_job(component: Component, seen: float) -> LearnedJob | None:
    rate = steady_volumes(component.samples, len(component.keys))
    if not np.isfinite(rate).any():
        return None
    filled = np.where(np.isfinite(rate), rate, np.nanmedian(rate))
    large = filled >= max(ELEPHANT_BYTES, LEAST_SHARE * float(filled.max()))
    keys = [component.keys[i] for i in np.flatnonzero(large).tolist()]
    groups = groups_of(keys, filled[large], 0) if keys else []
    if not groups:
        return None
    return LearnedJob(0.0, 0, tuple(groups), (), float(np.isfinite(rate).mean()) / 2, seen, seen)


def infer(
    odometers: Odometers, since: float, rng: np.random.Generator, pushed: FlowKeys = frozenset()
) -> list[LearnedJob]:
    """Return the jobs of all QPs that were seen since a time and are not pushed, in order of their names.

    Jobs of TCP are looked for after the others, so that these are what they would be without TCP.

    QPs that have ended, while others of their job go on, are left out: those of a ring that has another order now.

    Sets how densely the sightings of each QP are kept from now on: so that they span some iterations.
    """
    seen = seen_qps(odometers, since, pushed)
    is_tcp = np.array([key.protocol != ROCE for key in seen.keys], dtype=np.bool_)
    jobs: list[LearnedJob] = []
    if not is_tcp.any():
        jobs += _jobs_of(odometers, seen, rng, _since_restart)
    else:
        jobs += _jobs_of(odometers, seen.without(is_tcp), rng, _since_restart)
        tcp = seen.without(~is_tcp)
        jobs += _jobs_of(odometers, tcp.without(minor(tcp)), rng, partial(_of_tcp, odometers.is_open))
    return sorted(jobs, key=lambda job: job.name)


def _jobs_of(
    odometers: Odometers, seen: Component, rng: np.random.Generator, inference: _Inference | None = None
) -> list[LearnedJob]:
    jobs = []
    for component in split(seen):
        for part, inferred in (inference or _inferred)(component, rng):
            job = _of_single_iterations(part, inferred, rng)
            jobs.append(job)
            _space(odometers, part, job)
    return with_common_classes([job for job in jobs if job is not None])


def _of_tcp(is_open: Callable[[QpKey], bool], component: Component, rng: np.random.Generator) -> _Jobs:
    """Return the job of a component of TCP, or those that are left of it by connections that have ended."""
    is_there = np.array([is_open(key) for key in component.keys], dtype=np.bool_)
    counted = counted_iterations(component.samples, len(component.keys), is_there)
    if counted is None:
        return _since_restart(component, rng)
    if counted.ended.any():
        rest = split(component.without(counted.ended))
        return [each for part in rest for each in _of_tcp(is_open, part, rng)]
    marks = marks_of(component.samples, rng)
    marks = marks.of(marks.at >= counted.iterations.begins[0])
    sizes = Volumes(counted.bytes, counted.error, counted.variation)
    job = _job_of(component, marks, counted.iterations, sizes)
    return [(component, None if job is None else replace(job, iterations=counted.agreeing, is_counted=True))]


def _of_single_iterations(component: Component, job: LearnedJob | None, rng: np.random.Generator) -> LearnedJob | None:
    """Return a job with the bytes of one iteration, if the values of its counters show that it has those of others."""
    few = len(component.samples.at) < FEWEST_READINGS * len(component.keys)
    if job is None or few or component.samples.sampled.any():
        return job
    sizes: dict[QpKey, int] = {}
    for (_, key), size in job.volumes.items():
        sizes[key] = sizes.get(key, 0) + size
    bytes_ = np.array([sizes.get(key, np.nan) for key in component.keys])
    single = single_iterations(component.samples, bytes_, rng, bool(job.period_seconds))
    if single is None:
        return job
    if job.period_seconds and abs(single.parts - 1) <= SAME:
        return replace(job, is_counted=True, is_single=True)
    anew = iterations_of(component.samples, bytes_ / single.parts, single.since)
    if anew is None:
        return job
    iterations, volumes_ = anew
    marks = marks_of(component.samples, rng)
    other = _job_of(component, marks.of(marks.at >= iterations.begins[0]), iterations, volumes_)
    return job if other is None else replace(other, is_counted=True, is_single=True)


def _since_restart(component: Component, rng: np.random.Generator) -> _Jobs:
    """Return the job of a component from what it has sent since it last began anew.

    As long as the newest part is too short to show a period, or shows none, but has the same QPs, the job is what it
    was before. Its period is most likely what it was, too.
    """
    begins = starts(idle_times(component.samples))
    if not len(begins):
        return _inferred(component, rng)
    newest = component.within(begins[-1], np.inf)
    if not newest.keys:
        # Of what has begun now, one sighting is known of each QP, which tells nothing yet.
        return []
    before = component.within(begins[-2] if len(begins) > 1 else -np.inf, begins[-1])
    if not set(newest.keys) <= set(before.keys):
        return [each for part in split(newest) for each in _inferred(part, rng)]
    earlier = [each for part in split(before) for each in _inferred(part, rng)]
    likely = max((job.period_seconds for _, job in earlier if job is not None), default=0.0)
    at = marks_of(newest.samples, rng).at
    # QPs that have not sent yet may do so until then.
    if float(np.ptp(at)) >= FEWEST * likely:
        jobs = [each for part in split(newest) for each in _inferred(part, rng, likely)]
        has_period = any(job is not None and job.period_seconds for _, job in jobs)
        if not likely or has_period or before.keys != newest.keys:
            return jobs
    return [(part, None if job is None else replace(job, seen=float(at.max()))) for part, job in earlier]


def minor(seen: Component) -> BoolArray:
    """Return which of the connections [Q] are minor: ``LEAST_SHARE`` of the most that an end has with another host.

    Unlike RDMA, TCP is also what hosts are managed and jobs are coordinated by. Such connections lead from jobs to
    other jobs, and would make one job of all.
    """
    rate = np.nan_to_num(steady_volumes(seen.samples, len(seen.keys)))
    most: dict[int, float] = {}
    for key, size in zip(seen.keys, rate.tolist(), strict=True):
        for host in (key.src, key.dst):
            most[host] = max(most.get(host, 0.0), size)
    least = np.array([LEAST_SHARE * max(most[key.src], most[key.dst]) for key in seen.keys])
    return rate <= least


def _inferred(
    component: Component, rng: np.random.Generator, likely: float = 0.0
) -> list[tuple[Component, LearnedJob | None]]:
    """Return the job of a component, or those that are left of it by QPs that have ended.

    Marks of a QP that ended long ago, beside newer ones of others, show a period that is none. So QPs that are silent
    for much longer than they ever were before are first left out, and have ended if the period of the others says so.
    """
    qps = len(component.keys)
    marks = marks_of(component.samples, rng)
    silent = silences(marks, qps)
    if silent.any():
        quiet = silent > SILENT_PERIODS * longest_pauses(component.samples, qps)
        rest = _parts(component, quiet, rng) if quiet.any() else []
        ended = quiet & (silent > max((allowed_silence(job) for _, job in rest), default=np.inf))
        if ended.any():
            return rest if ended.sum() == quiet.sum() else _without(component, ended, rng)
    job = infer_component(component, marks, rng, likely)
    ended = silent > allowed_silence(job)
    return _parts(component, ended, rng) if ended.any() else [(component, job)]


def _parts(
    component: Component, left_out: BoolArray, rng: np.random.Generator
) -> list[tuple[Component, LearnedJob | None]]:
    """Return the jobs of a component without some QPs."""
    return [
        (part, infer_component(part, marks_of(part.samples, rng), rng)) for part in split(component.without(left_out))
    ]


def _without(
    component: Component, ended: BoolArray, rng: np.random.Generator
) -> list[tuple[Component, LearnedJob | None]]:
    return [each for part in split(component.without(ended)) for each in _inferred(part, rng)]


def _space(odometers: Odometers, component: Component, job: LearnedJob | None) -> None:
    sampled = bool(component.samples.sampled.any())
    depth = odometers.depth(component.numbers)
    if job is not None and job.iterations >= (CERTAIN_ITERATIONS if sampled else 1):
        odometers.space(component.numbers, job.period_seconds * KEPT_ITERATIONS / depth)
    elif sampled and (job is None or not job.period_seconds):
        # A period that was none may have been set before.
        odometers.span_all(component.numbers)
    elif not sampled and len(component.samples.at) >= 0.75 * depth.sum():
        # Full, and no period yet: look further back.
        odometers.space(component.numbers, 2 * float(np.ptp(component.samples.at)) / depth)


def with_common_classes(jobs: Sequence[LearnedJob]) -> list[LearnedJob]:
    """Return jobs whose equal volumes are equal numbers, too, with groups ``joined`` that then have a shape.

    Rings of one job that share no host are learned one by one, each with an error of its own. On a fabric with failed
    links, a plan for slightly different volumes has a lower mean speed.
    """
    merged: dict[int, LearnedJob] = {}
    for with_period in (True, False):
        chosen = [i for i, job in enumerate(jobs) if bool(job.period_seconds) == with_period]
        value = np.array([group.bytes[0] for i in chosen for group in jobs[i].groups], dtype=np.float64)
        flows = np.array([len(group.qps) for i in chosen for group in jobs[i].groups])
        # The more flows a group has, the smaller is its error.
        mean_volumes = Volumes(value, value / np.sqrt(flows) * TOLERANCE, np.full(len(value), np.nan))
        common = iter(classes(mean_volumes, np.arange(len(value), dtype=np.int32)).tolist())
        for i in chosen:
            groups = tuple(
                replace(group, bytes=(max(1, round(next(common))),) * len(group.bytes)) for group in jobs[i].groups
            )
            merged[i] = replace(jobs[i], groups=joined(groups))
    return [merged[i] for i in range(len(jobs))]
