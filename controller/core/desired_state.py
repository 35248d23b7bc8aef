"""The desired state: jobs, drains, and how plans are enforced, as one immutable value, which the store saves.

It can ask for more than is possible now: a job whose hosts the fabric does not have is left out of the plan, and a
drained cable may have to stay in use.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson

from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT, Mode
from controller.model.choices.learning import Learning
from controller.model.fabric import IntArray
from controller.model.packets.flow_ports import ALL_TCP, CODES_OF_TCP, KIND_SHIFT, is_roce, port_code
from controller.model.traffic import ANY_PORT, Int64Array, unit_key
from controller.planning.background import Background
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.workload.expand import JobTraffic

UNPLACED = "its hosts are not known yet"


@dataclass(frozen=True, eq=False)
class AdmittedJob:
    """A job that was accepted.

    Attributes:
        document: as pushed.
        revision: of the document; the job's ETag.
        position: jobs are planned in this order; a new version keeps its job's.
        changed: when it was pushed, seconds since 1970.
        by: whose token it was pushed with.
        ports: [F] UDP source port of each of its flows; hosts have received them, so they do not change.
        traffic: its flows on the fabric; ``None``: the fabric does not have what it needs.
        left_out: why it has no traffic.
    """

    name: str
    document: bytes
    revision: str
    position: int
    changed: float
    by: str
    ports: IntArray
    traffic: JobTraffic | None
    left_out: str = ""

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the document, in hexadecimal."""
        return hashlib.sha256(self.document).hexdigest()

    @property
    def weight(self) -> float:
        """The job's weight."""
        return self._stated[0] if self.traffic is None else self.traffic.weight

    @property
    def rank_of(self) -> Mapping[str, int]:
        """The (first) rank that runs on each host; empty for a job of single flows, a matrix or an import."""
        return self._stated[1]

    @functools.cached_property
    def _stated(self) -> tuple[float, Mapping[str, int]]:
        """Weight and ranks in the document, which was checked when it was admitted."""
        document = orjson.loads(self.document)
        rank_of: dict[str, int] = {}
        hosts = document.get("hosts")
        for rank, host in enumerate(hosts if isinstance(hosts, list) else ()):
            rank_of.setdefault(str(host), rank)
        return float(document.get("weight", 1.0)), rank_of


@dataclass(frozen=True)
class DesiredState:
    """The jobs, drains and modes that users have requested.

    Attributes:
        jobs: by position.
        drained: ids of cables, switches, pods and planes.
        enforcement: name of that of mode ``planned``.
        learning: what becomes of learned jobs; no part of what a plan depends on.
        learned: the learned jobs to plan, by name; empty unless ``learning`` is ``act``. They are not saved.
        background: the load of traffic in no plan, beside which jobs are planned; as ``learned``.
    """

    jobs: tuple[AdmittedJob, ...] = ()
    drained: frozenset[str] = frozenset()
    mode: Mode = "planned"
    enforcement: str = DEFAULT_ENFORCEMENT
    learning: Learning = field(default="observe", compare=False)
    learned: tuple[JobTraffic, ...] = ()
    background: Background = field(default_factory=dict)

    @property
    def traffic(self) -> list[JobTraffic]:
        """The traffic of all jobs that have some, in order."""
        return [job.traffic for job in self.jobs if job.traffic is not None]

    @functools.cached_property
    def learned_traffic(self) -> list[JobTraffic]:
        """The flows of learned jobs that are planned: those of no pushed job."""
        return without_pushed(self.learned, self.traffic) if self.plans_learned else []

    @property
    def left_out(self) -> list[AdmittedJob]:
        """Jobs that are stored but not in the plan."""
        return [job for job in self.jobs if job.traffic is None]

    @property
    def n_flows(self) -> int:
        """Flows of all jobs, those that are left out included: they may come back."""
        return sum(len(job.ports) for job in self.jobs)

    def job(self, name: str) -> AdmittedJob | None:
        """Return the job of that name, or ``None``."""
        return next((job for job in self.jobs if job.name == name), None)

    def with_job(self, job: AdmittedJob) -> DesiredState:
        """Return the state with a new job, or with a new version of one."""
        rest = (other for other in self.jobs if other.name != job.name)
        return dataclasses.replace(self, jobs=tuple(sorted((*rest, job), key=lambda one: one.position)))

    def without_job(self, name: str) -> DesiredState:
        """Return the state without the job of that name; unchanged if there is none."""
        return dataclasses.replace(self, jobs=tuple(job for job in self.jobs if job.name != name))

    def draining(self, names: Collection[str], drained: bool) -> DesiredState:
        """Return the state with cables, switches, pods or planes drained (``drained``), or back in use."""
        return dataclasses.replace(
            self, drained=self.drained.union(names) if drained else self.drained.difference(names)
        )

    def in_mode(self, mode: Mode | None, enforcement: str | None) -> DesiredState:
        """Return the state with another mode or enforcement; ``None`` keeps the present one."""
        after = dataclasses.replace(self, mode=mode or self.mode, enforcement=enforcement or self.enforcement)
        # Flows of learned jobs are known by their own ports, or by numbers.
        return after if after.chooses_ports == self.chooses_ports else dataclasses.replace(after, learned=())

    def in_learning(self, learning: Learning) -> DesiredState:
        """Return the state that treats learned jobs so."""
        acts = learning == "act"
        return dataclasses.replace(
            self, learning=learning, learned=self.learned if acts else (), background=self.background if acts else {}
        )

    def planning_learned(self, learned: Sequence[JobTraffic]) -> DesiredState:
        """Return the state with these learned jobs, if it is still to act on them."""
        return dataclasses.replace(self, learned=tuple(learned) if self.learning == "act" else ())

    def beside(self, background: Background) -> DesiredState:
        """Return the state with this background load, if it is still to act on what is measured."""
        return dataclasses.replace(self, background=background if self.learning == "act" else {})

    @property
    def chooses_ports(self) -> str | None:
        """The name of the enforcement if the controller must be free to choose the source port of every flow."""
        return self.enforcement if ENFORCEMENTS.named(self.enforcement).chooses_ports else None

    @property
    def learns_ports(self) -> bool:
        """Whether agents of hosts find the source ports of flows, and programs send from them."""
        return ENFORCEMENTS.named(self.enforcement).learns_ports

    @property
    def plans_learned(self) -> bool:
        """Whether learned jobs can be planned: nobody else makes their programs send from chosen ports."""
        return self.learns_ports or not self.chooses_ports

    @property
    def spread_keys(self) -> Int64Array:
        """``unit_key`` of all flows whose packets may take several paths at once."""
        keys = [np.zeros(0, dtype=np.int64)]
        for job in self.traffic:
            free = np.array([row.any_order for row in job.collectives], dtype=np.bool_)
            if free.any():
                keys.append(unit_key(job.src, job.dst, job.udp_src)[free[job.collective]])
        return np.concatenate(keys)

    @property
    def next_position(self) -> int:
        """The position of the next new job: one above the largest in use."""
        return max((job.position for job in self.jobs), default=-1) + 1


def without_pushed(learned: Sequence[JobTraffic], pushed: Sequence[JobTraffic]) -> list[JobTraffic]:
    """Return learned jobs without the flows that a pushed job has, and without jobs that have none left.

    A pushed job has a flow if hosts and source port are equal, or hosts alone where either port is not known, or where
    its own flow is of TCP, or of all packets. It has all flows of a learned job of its name, because that one was
    adopted, and perhaps changed.
    """
    names = {job.name for job in pushed}
    learned = [job for job in learned if job.n_flows and job.name not in names]
    if not learned or not pushed:
        return learned
    known = np.unique(np.concatenate([_keys_of(job) for job in pushed]))
    kept = []
    for job in learned:
        key = unit_key(job.src, job.dst, job.udp_src)
        any_port = unit_key(job.src, job.dst, np.full_like(job.udp_src, ANY_PORT))
        same_hosts = (job.udp_src == ANY_PORT) & np.isin(any_port >> 16, known >> 16)
        same_hosts |= np.isin(unit_key(job.src, job.dst, np.full_like(job.udp_src, port_code("any"))), known)
        free = np.flatnonzero(~np.isin(key, known) & ~(is_roce(job.udp_src) & np.isin(any_port, known)) & ~same_hosts)
        if len(free) == job.n_flows:
            kept.append(job)
        elif len(free):
            kept.append(_with_flows(job, free))
    return kept


def _keys_of(job: JobTraffic) -> Int64Array:
    """Return what a pushed job has, as ``unit_key`` does; of flows of TCP, all TCP of their hosts, too."""
    tcp = np.isin(job.udp_src >> KIND_SHIFT, CODES_OF_TCP)
    all_tcp = np.full(int(tcp.sum()), ALL_TCP, dtype=np.int32)
    stated = unit_key(job.src, job.dst, job.udp_src)
    return np.concatenate((stated, unit_key(job.src[tcp], job.dst[tcp], all_tcp)))


def _with_flows(job: JobTraffic, flows: Int64Array) -> JobTraffic:
    return dataclasses.replace(
        job,
        src=job.src[flows],
        dst=job.dst[flows],
        bytes=job.bytes[flows],
        collective=job.collective[flows],
        number=job.number[flows],
        udp_src=job.udp_src[flows],
    )


DesiredStateChange = Callable[[DesiredState], DesiredState]
"""A requested change, applied to the desired state that is current when the change is processed."""


def revision(before: str, document: bytes) -> str:
    """Return the revision of a document that replaces revision ``before`` (empty: none); it differs from ``before``."""
    return hashlib.blake2b(before.encode() + b"\n" + document, digest_size=8).hexdigest()
