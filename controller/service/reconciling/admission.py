"""Expansion of jobs to flows with UDP source ports, at admission and after a restart.

Each document is converted once: a request's text to plain data, and these to a ``Job``. What is plain data already (a
job of a preview, a learned job) is not written as text to be read again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from controller.core.desired_state import DesiredState
from controller.core.packet_order import check_spread, unplanned
from controller.core.port_choice import check_free, own_ports
from controller.core.ports.api import BodyReaders
from controller.core.ports.host_agents import HostReport
from controller.core.ports.runtime import Runtime
from controller.core.requests.preview_request import ExpandedPreview, ReadPreview
from controller.core.requests.sighting_request import SightingRequest
from controller.core.requests.survival_request import SurvivalRequest
from controller.learning.learned_job import LearnedJob
from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.job import Job
from controller.model.queue_pairs import ONE_QP, QueuePairs
from controller.model.traffic import Collective
from controller.service.tasks.worker_process import Worker
from controller.views.learned import host_finder, job_document
from controller.workload.expand import ExpandedJobs, JobTraffic, expand
from controller.workload.import_form import job_from_body, job_of_document
from controller.workload.job_file import parse_job

SMALL = 256 * 1024
"""Bytes of a document up to which a thread is used instead of a process."""

SMALL_REPORT = 4096
"""Bytes of a report of an agent up to which the event loop reads it."""

FLOW_BYTES = 100
"""About the bytes of a flow in a document."""


class Admission:
    """Parses and expands off the event loop, large documents in a process of their own."""

    def __init__(
        self,
        runtime: Runtime,
        readers: BodyReaders,
        default_qps: QueuePairs = ONE_QP,
        check: Callable[[Sequence[Collective]], None] = lambda collectives: None,
        policy: str = "fair",
    ) -> None:
        """Prepare the worker.

        Args:
            runtime: threads and processes.
            readers: parse the bodies of requests.
            default_qps: the QPs of connections of jobs that do not say.
            check: raises ``InputError`` for collectives that the controller's policy cannot plan. Jobs that were
                admitted under other options are not checked.
            policy: the name of the controller's policy.
        """
        self._runtime, self._readers, self._default_qps, self._check = runtime, readers, default_qps, check
        self._policy = policy
        self._worker = Worker(runtime.start_process)
        self._one_at_a_time = runtime.lock()

    def admit(
        self,
        name: str,
        body: bytes,
        fabric: Fabric,
        others: Sequence[JobTraffic],
        max_flows: int,
        *,
        chooses_ports: str | None = None,
    ) -> JobTraffic:
        """Return the job's flows; ``others`` hold the ports that are taken.

        Args:
            name: of the job.
            body: its document.
            fabric: the fabric that the hosts belong to.
            others: traffic of the other jobs.
            chooses_ports: the name of an enforcement for which a job must leave its ports to the controller.
            max_flows: more are refused before there is memory for them; those within servers count here.

        Raises:
            InputError: what is wrong with the document.
        """
        traffic: JobTraffic = self._run(
            len(body), admit, name, body, fabric, others, max_flows, chooses_ports, self._default_qps
        )
        self._check_collectives(traffic)
        return traffic

    def admit_learned(
        self,
        job: LearnedJob,
        fabric: Fabric,
        others: Sequence[JobTraffic],
        max_flows: int,
        *,
        chooses_ports: str | None = None,
    ) -> JobTraffic:
        """Return the flows of a learned job; arguments and errors as of ``admit``."""
        size = FLOW_BYTES * sum(len(group.qps) for group in job.groups)
        traffic: JobTraffic = self._run(
            size, admit_learned, job, fabric, others, max_flows, chooses_ports, self._default_qps
        )
        self._check_collectives(traffic)
        return traffic

    def readmit(self, desired: DesiredState, fabric: Fabric, max_flows: int) -> DesiredState:
        """Return the state with flows for those jobs that have none, as far as the fabric has their hosts.

        They get the ports that they had. Where that is not possible (the fabric's servers are others now, or another
        job has taken a port), the job gets new ones.
        """
        if not desired.left_out:
            return desired
        size = sum(len(job.document) for job in desired.left_out)
        jobs = [_Waiting(job.name, job.document, job.ports, job.traffic) for job in desired.jobs]
        traffics: list[JobTraffic | str] = self._run(
            size, readmit, jobs, fabric, max_flows, desired.chooses_ports, self._default_qps
        )
        traffics = [
            traffic
            if isinstance(traffic, str)
            else unplanned(traffic.collectives, self._policy, desired.enforcement) or traffic
            for traffic in traffics
        ]
        placed = tuple(
            job
            if job.traffic is not None
            else dataclasses.replace(job, left_out=traffic)
            if isinstance(traffic, str)
            else dataclasses.replace(job, traffic=traffic, ports=traffic.udp_src, left_out="")
            for job, traffic in zip(desired.jobs, traffics, strict=True)
        )
        return dataclasses.replace(desired, jobs=placed)

    def preview(
        self,
        body: bytes,
        fabric: Fabric,
        others: Sequence[JobTraffic],
        max_flows: int,
        *,
        chooses_ports: str | None = None,
    ) -> ExpandedPreview:
        """Return what a preview asks for, with the flows of its jobs; arguments as of ``admit``.

        Raises:
            InputError: what is wrong with it, or with one of the jobs (``put[1].hosts[0]``).
        """
        expanded: ExpandedPreview = self._run(
            len(body),
            expand_preview,
            self._readers.preview,
            body,
            fabric,
            others,
            max_flows,
            chooses_ports,
            self._default_qps,
        )
        for i, (_, _, traffic) in enumerate(expanded.jobs):
            try:
                self._check_collectives(traffic)
            except InputError as error:
                raise _of_put(error, i) from None
        return expanded

    def survival(self, body: bytes) -> SurvivalRequest:
        """Return the failures that a request asks to analyse.

        Raises:
            InputError: what is wrong with it.
        """
        request: SurvivalRequest = self._run(len(body), self._readers.survival, body)
        return request

    def sightings(self, body: bytes) -> SightingRequest:
        """Return the sightings of a request.

        Raises:
            InputError: what is wrong with it.
        """
        request: SightingRequest = self._run(len(body), self._readers.sightings, body)
        return request

    def host_report(self, body: bytes) -> HostReport:
        """Return the report of the agent of a host.

        Raises:
            InputError: what is wrong with it.
        """
        read = self._readers.host_report
        # Handing a small one to a thread takes longer than reading it, and thousands of agents send them.
        report: HostReport = read(body) if len(body) <= SMALL_REPORT else self._run(len(body), read, body)
        return report

    def _check_collectives(self, traffic: JobTraffic) -> None:
        self._check(traffic.collectives)
        check_spread(traffic.collectives, self._policy)

    def _run(self, size: int, function: Callable[..., Any], *args: Any) -> Any:
        if size <= SMALL:
            return self._runtime.offload(function, *args)
        with self._one_at_a_time:
            return self._runtime.offload(self._worker.run, function, *args)

    def close(self) -> None:
        """End the worker process."""
        self._worker.close()


# What follows runs in a thread or in the worker process.


def admit(
    name: str,
    body: bytes,
    fabric: Fabric,
    others: Sequence[JobTraffic],
    max_flows: int,
    chooses_ports: str | None = None,
    default_qps: QueuePairs = ONE_QP,
) -> JobTraffic:
    """Parse the body of a request, and expand its job."""
    job = job_from_body(body, name, fabric)
    return _expanded(job, fabric, others, max_flows, chooses_ports, default_qps)


def admit_learned(
    job: LearnedJob,
    fabric: Fabric,
    others: Sequence[JobTraffic],
    max_flows: int,
    chooses_ports: str | None = None,
    default_qps: QueuePairs = ONE_QP,
) -> JobTraffic:
    """Expand a learned job as it would be pushed."""
    document = job_document(job, fabric, chooses_ports) if chooses_ports else job.document(host_finder(fabric))
    pushed = parse_job(document, name=job.name)
    return _expanded(pushed, fabric, others, max_flows, chooses_ports, default_qps)


def _expanded(
    job: Job,
    fabric: Fabric,
    others: Sequence[JobTraffic] | ExpandedJobs,
    max_flows: int,
    chooses_ports: str | None,
    default_qps: QueuePairs,
) -> JobTraffic:
    if chooses_ports:
        check_free(job, chooses_ports)
    return expand(fabric, job, others, max_flows=max_flows, default_qps=default_qps)


@dataclass(frozen=True)
class _Waiting:
    """A stored job with the input of its expansion; ``traffic``: it is expanded already."""

    name: str
    document: bytes
    ports: IntArray
    traffic: JobTraffic | None


def readmit(
    jobs: Sequence[_Waiting],
    fabric: Fabric,
    max_flows: int,
    chooses_ports: str | None,
    default_qps: QueuePairs = ONE_QP,
) -> list[JobTraffic | str]:
    """Return the flows of each job, or in words why it has none. Jobs that can have their old ports go first."""
    traffics: list[JobTraffic | str] = [job.traffic if job.traffic is not None else "" for job in jobs]
    known = ExpandedJobs(fabric, (traffic for traffic in traffics if not isinstance(traffic, str)))
    room = max_flows - sum(traffic.n_flows for traffic in known.jobs)
    for keep_ports in (True, False):
        for i, job in enumerate(jobs):
            if not isinstance(traffics[i], str):
                continue
            try:
                parsed = job_from_body(job.document, job.name, fabric, kept=True)
                ports = job.ports if keep_ports else None
                traffic = expand(fabric, parsed, known, max_flows=room, ports=ports, default_qps=default_qps)
            except InputError as error:
                traffics[i] = str(error)
                continue
            if chooses_ports and (refused := own_ports(traffic, chooses_ports)):
                traffics[i] = refused
                continue
            traffics[i] = traffic
            known.add(traffic)
            room -= traffic.n_flows
    return traffics


def expand_preview(
    read_preview: ReadPreview,
    body: bytes,
    fabric: Fabric,
    others: Sequence[JobTraffic],
    max_flows: int,
    chooses_ports: str | None,
    default_qps: QueuePairs = ONE_QP,
) -> ExpandedPreview:
    """Parse the body of a preview, and expand its jobs one after the other."""
    request = read_preview(body)
    names = [document.get("name") for document in request.put]
    gone = {*request.delete, *(name for name in names if isinstance(name, str))}
    there = ExpandedJobs(fabric, (other for other in others if other.name not in gone))
    room = max_flows - sum(other.n_flows for other in there.jobs)
    jobs = []
    for i, (name, document) in enumerate(zip(names, request.put, strict=True)):
        if not isinstance(name, str):
            raise InputError("a job needs its name here", field=f"put[{i}].name", value=name)
        if name in names[:i]:
            raise InputError("this job is listed twice", field=f"put[{i}].name", value=name)
        try:
            job = job_of_document(document, name, fabric)
            traffic = _expanded(job, fabric, there, room, chooses_ports, default_qps)
        except InputError as error:
            raise _of_put(error, i) from None
        there.add(traffic)
        room -= traffic.n_flows
        jobs.append((name, orjson.dumps(document), traffic))
    return ExpandedPreview(request, tuple(jobs))


def _of_put(error: InputError, i: int) -> InputError:
    """Return the error of one job of a preview, with its place there."""
    field = f"put[{i}].{error.field}" if error.field else f"put[{i}]"
    return InputError(error.reason, field=field, value=error.value)
