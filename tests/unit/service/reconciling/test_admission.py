"""Documents that are too large for a thread are always handled by the worker process."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.core.desired_state import UNPLACED, AdmittedJob, DesiredState
from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.sightings import QpKey
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import ANY_PORT
from controller.rest.readers import READERS
from controller.routing.base import Options
from controller.routing.split_check import check_splits
from controller.service.reconciling import admission as module
from controller.service.reconciling.admission import Admission
from controller.views.learned import address_finder, host_finder
from controller.workload.expand import ExpandedJobs, JobTraffic
from tests.unit.service.world import Threads, flow

FABRIC = clos(2, 2, 2)


class Processes(Threads):
    """Threads that may start processes."""

    def start_process(self, command: list[str]) -> Any:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.fixture
def admission(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "SMALL", 0)
    made = Admission(Processes(), READERS)
    yield made
    made.close()


def document(*flows: dict[str, Any]) -> bytes:
    return json.dumps({"flows": flows}).encode()


def test_jobs_previews_and_kept_jobs_come_back_whole_from_the_worker(admission: Admission) -> None:
    body = document(flow("h1", "h3"), flow("h2", "h4"))
    traffic = admission.admit("a", body, FABRIC, [], 10)
    assert traffic.n_flows == 2
    form = {"put": [{"name": "b", "flows": [flow("h1", "h3")]}], "drain": ["spine1"]}
    tried = admission.preview(json.dumps(form).encode(), FABRIC, [traffic], 10)
    assert [(name, t.n_flows) for name, _, t in tried.jobs] == [("b", 1)]
    assert tried.request.drain == ("spine1",)
    ports = np.array([50001, 50002], dtype=np.int32)
    job = AdmittedJob("a", body, "r", 0, 0.0, "ann", ports, None, UNPLACED)
    lost = dataclasses.replace(job, name="lost", document=document(flow("h1", "h9")), position=1)
    placed = admission.readmit(DesiredState((job, lost)), FABRIC, 10)
    assert placed.jobs[0].traffic is not None
    assert placed.jobs[0].traffic.udp_src.tolist() == ports.tolist()
    assert "h9" in placed.jobs[1].left_out


def test_sightings_come_back_whole_from_the_worker(admission: Admission) -> None:
    qp = {"src": "h1", "dst": "h3", "udp_src": 50001, "dst_qp": 7}
    body = json.dumps({"qps": [qp], "qp": [0, 0], "at": [1.0, 2.0], "bytes": [0, 5]}).encode()
    seen = admission.sightings(body)
    assert seen.qps == (("h1", "h3", 50001, 7),)
    assert (seen.qp.tolist(), seen.at.tolist(), seen.bytes.tolist()) == ([0, 0], [1.0, 2.0], [0, 5])
    with pytest.raises(InputError) as caught:
        admission.sightings(body.replace(b"[0, 0]", b"[0, 1]"))
    assert (caught.value.field, caught.value.value) == ("qp[1]", 1)


def test_what_is_wrong_comes_back_from_the_worker_as_the_same_error(admission: Admission) -> None:
    with pytest.raises(InputError) as caught:
        admission.admit("a", document(flow("h1", "h9")), FABRIC, [], 10)
    assert (caught.value.field, caught.value.value) == ("flows[0].dst", "h9")


def test_kept_jobs_that_can_have_their_ports_get_them_before_others_get_new_ones() -> None:
    admission = Admission(Threads(), READERS)
    body = document(flow("h1", "h3"))
    free = int(admission.admit("first", body, FABRIC, [], 10).udp_src[0])
    # The first one's kept ports no longer fit its flows; the second one's are what the first would like to have.
    first = AdmittedJob("first", body, "r", 0, 0.0, "", np.zeros(5, dtype=np.int32), None)
    second = AdmittedJob("second", body, "r", 1, 0.0, "", np.array([free], dtype=np.int32), None)
    placed = admission.readmit(DesiredState((first, second)), FABRIC, 10)
    assert placed.jobs[1].ports.tolist() == [free]
    assert placed.jobs[0].traffic is not None
    assert placed.jobs[0].ports.tolist() != [free]


def test_what_a_kept_job_needs_of_the_others_is_computed_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ExpandedJobs] = []

    def counted(*of: Any) -> ExpandedJobs:
        made.append(ExpandedJobs(*of))
        return made[-1]

    monkeypatch.setattr(module, "ExpandedJobs", counted)
    body, none = document(flow("h1", "h3")), np.zeros(0, dtype=np.int32)
    jobs = tuple(AdmittedJob(f"j{i}", body, "r", i, 0.0, "", none, None) for i in range(20))
    placed = Admission(Threads(), READERS).readmit(DesiredState(jobs), FABRIC, 20)
    assert [len(known.jobs) for known in made] == [20]
    assert len({int(job.ports[0]) for job in placed.jobs}) == 20


def test_kept_jobs_beyond_the_limit_of_flows_are_left_out() -> None:
    body = document(flow("h1", "h3"))
    ports = np.array([50001], dtype=np.int32)
    jobs = tuple(AdmittedJob(name, body, "r", i, 0.0, "", ports + i, None) for i, name in enumerate("ab"))
    placed = Admission(Threads(), READERS).readmit(DesiredState(jobs), FABRIC, 1)
    assert [job.traffic is None for job in placed.jobs] == [False, True]
    assert "at most 0 more are allowed" in placed.jobs[1].left_out


def test_a_kept_job_with_a_key_twice_comes_back_although_no_new_one_is_taken(admission: Admission) -> None:
    body = b'{"weight": 1.0, "weight": 2.0, "flows": [{"src": "h1", "dst": "h3", "bytes": 1000}]}'
    with pytest.raises(InputError, match="twice") as caught:
        admission.admit("a", body, FABRIC, [], 10)
    assert caught.value.field == "weight"
    job = AdmittedJob("a", body, "r", 0, 0.0, "ann", np.array([50001], dtype=np.int32), None, UNPLACED)
    (placed,) = admission.readmit(DesiredState((job,)), FABRIC, 10).jobs
    assert placed.traffic is not None


def test_the_default_of_qps_counts_at_admission_after_a_restart_and_in_previews() -> None:
    admission = Admission(Threads(), READERS, QueuePairs(3))
    body = document(flow("h1", "h3"))
    traffic = admission.admit("a", body, FABRIC, [], 10)
    assert [row.qps for row in traffic.collectives] == [QueuePairs(3)]
    form = {"put": [{"name": "b", "flows": [flow("h1", "h3")]}]}
    tried = admission.preview(json.dumps(form).encode(), FABRIC, [], 9)
    assert [each.n_flows for _, _, each in tried.jobs] == [3]
    kept = AdmittedJob("a", body, "r", 0, 0.0, "ann", traffic.udp_src, None, UNPLACED)
    (again,) = admission.readmit(DesiredState((kept,)), FABRIC, 10).jobs
    assert again.ports.tolist() == traffic.udp_src.tolist()
    # Another default after a restart: the job has as many QPs as the controller says now.
    (other,) = Admission(Threads(), READERS, QueuePairs(2)).readmit(DesiredState((kept,)), FABRIC, 10).jobs
    assert other.traffic is not None
    assert other.traffic.n_flows == 2


def test_jobs_that_the_policy_cannot_plan_are_refused_and_previewed_ones_by_their_place() -> None:
    check = partial(check_splits, policies=["fair"], options=Options(max_splits=3))
    admission = Admission(Threads(), READERS, QueuePairs(2, "round_robin"), check)
    told = "qp_mode: 'round_robin': QPs of a carry whole messages in turn, and option max_splits=3 lets fair cut them"
    with pytest.raises(InputError) as caught:
        admission.admit("a", document(flow("h1", "h3")), FABRIC, [], 10)
    assert str(caught.value).startswith(told)
    single = {"name": "b", "qps": 1, "flows": [flow("h1", "h3")]}
    form = {"put": [single, {"name": "a", "flows": [flow("h2", "h3")]}]}
    with pytest.raises(InputError) as caught:
        admission.preview(json.dumps(form).encode(), FABRIC, [], 10)
    assert str(caught.value).startswith(f"put[1].{told}")
    # A job that was admitted before the option was set stays.
    job = AdmittedJob("a", document(flow("h1", "h3")), "r", 0, 0.0, "", np.zeros(0, dtype=np.int32), None, UNPLACED)
    (kept,) = admission.readmit(DesiredState((job,)), FABRIC, 10).jobs
    assert kept.traffic is not None


@given(
    st.lists(st.tuples(st.sampled_from(range(4)), st.sampled_from(range(4))), min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from([0.0, 1.0]),
)
def test_a_learned_job_has_the_flows_that_its_document_has_when_it_is_pushed(
    pairs: list[tuple[int, int]], ports_known: bool, period: float
) -> None:
    address = address_finder(FABRIC)
    hosts = [number for name in FABRIC.host_names if (number := address(name)) is not None]
    qps = tuple(
        QpKey(hosts[a], hosts[b], 50000 + i if ports_known else ANY_PORT, i)
        for i, (a, b) in enumerate(pairs)
        if FABRIC.host_leaf[a] != FABRIC.host_leaf[b]
    )
    assume(qps)
    job = LearnedJob(period, 5, (LearnedGroup(0, "flows", qps, (10**6,) * len(qps)),), (0.25,), 1.0, 0.0, 0.0)
    body = orjson.dumps(job.document(host_finder(FABRIC)))
    with closing(Admission(Threads(), READERS)) as plain:
        learned, pushed = plain.admit_learned(job, FABRIC, [], 10), plain.admit(job.name, body, FABRIC, [], 10)
    for column in dataclasses.fields(JobTraffic):
        one, other = getattr(learned, column.name), getattr(pushed, column.name)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, column.name


def test_a_job_of_a_preview_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    form = {"put": [{"name": name, "flows": [flow("h1", "h3")]} for name in "ab"]}
    read = []
    monkeypatch.setattr(orjson, "loads", lambda text: read.append(text) or json.loads(text))
    request = module.expand_preview(READERS.preview, json.dumps(form).encode(), FABRIC, [], 10, None)
    assert (len(read), len(request.jobs)) == (1, 2)


def test_weight_and_ranks_of_a_job_are_those_of_its_document() -> None:
    hosts = ["h3", "h1", "h4"]
    body = json.dumps({"weight": 2.5, "hosts": hosts}).encode()
    job = AdmittedJob("a", body, "r", 0, 0.0, "ann", np.zeros(0, dtype=np.int32), None, UNPLACED)
    assert (job.weight, job.rank_of) == (2.5, {"h3": 0, "h1": 1, "h4": 2})
    flows = AdmittedJob("a", document(flow("h1", "h3")), "r", 0, 0.0, "ann", job.ports, None, UNPLACED)
    assert (flows.weight, flows.rank_of) == (1.0, {})
