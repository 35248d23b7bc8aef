"""Documents of the HTTP interface for a state."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob, DesiredState
from controller.core.speeds.speeds_now import Hindrance, SpeedsNow, speeds_now
from controller.model.errors import UnavailableError
from controller.model.traffic import FIRST_PORT
from controller.rest import schemas
from controller.southbound.enforcement.labels import LabelBlock
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.enforcement.source_port import number_bits
from controller.views import documents
from tests.unit.laws import examples
from tests.unit.service.job_steps import STEPS, step_of
from tests.unit.workload.documents import FABRIC, HOSTS, jobs

BASE = 20000
SETTINGS = Settings(label_base=BASE)


def now(state: ControllerState) -> SpeedsNow:
    """The speeds where all switches hold the rules of the state."""
    return speeds_now(state, connected=True, unconfirmed="", hindrance=Hindrance())


ACTIVE = st.none() | st.tuples(st.integers(0, 9), st.floats(0, 2e9))


@given(STEPS, ACTIVE)
def test_every_document_has_its_declared_shape(state: ControllerState, active: tuple[int, float] | None) -> None:
    plan = schemas.PlanDocument.model_validate_json(documents.plan(state, 1.5, active))
    assert (plan.mode, plan.computed.epoch, plan.computed.since.timestamp()) == (state.desired.mode, 5, 1.5)
    assert (plan.active.epoch if plan.active else None) == (active[0] if active else None)
    listed = schemas.JobList.model_validate_json(documents.jobs(state, frozenset(), now(state))).jobs
    assert [row.name for row in listed] == [job.name for job in state.jobs]
    for row, job in zip(listed, state.jobs, strict=True):
        assert row.digest == hashlib.sha256(job.document).hexdigest()
        shown = schemas.JobDocument.model_validate_json(documents.job(state, row.name, frozenset(), now(state)))
        assert (shown.name, shown.weight, shown.bytes, shown.min_speed, shown.active) == (
            row.name,
            row.weight,
            row.bytes,
            row.min_speed,
            row.active,
        )
        assert (shown.epoch, len(shown.flows), len(shown.collectives)) == (5, row.flows, row.collectives)
    for host in HOSTS:
        routes = schemas.Routes.model_validate_json(documents.routes(state, host, SETTINGS))
        assert (routes.host, routes.mode, routes.epoch) == (host, state.desired.mode, 5)
        assert routes.enforcement == state.desired.enforcement
        if state.desired.mode == "ecmp":
            assert not any(piece.path or piece.links or piece.labels for flow in routes.flows for piece in flow.pieces)


TIMED = {"flows": [{"src": HOSTS[0], "dst": HOSTS[-1], "bytes": 10**9, "collective": name} for name in "xy"]}


@settings(max_examples=examples(12, 200))
@given(
    compute=st.dictionaries(st.sampled_from(["0", "1"]), st.floats(0, 10), min_size=1),
    others=st.lists(jobs(claims=False), max_size=1),
)
def test_jobs_and_their_collectives_tell_the_expected_iterations_of_the_plan(
    compute: dict[str, float], others: list[dict[str, Any]]
) -> None:
    state = step_of(FABRIC, [TIMED | {"phases": {"y": 1}, "compute_seconds": compute}, *others], policy="fair")
    plan = schemas.PlanDocument.model_validate_json(documents.plan(state, 1.5, None)).plan
    listed = schemas.JobList.model_validate_json(documents.jobs(state, None, SpeedsNow()))
    assert plan.times is not None
    assert listed.times == schemas.ExpectedSlowdown(**plan.times.model_dump(exclude={"jobs"}))
    rows = {row.job: schemas.ExpectedIteration(**row.model_dump(exclude={"job"})) for row in plan.times.jobs}
    for summary in listed.jobs:
        shown = schemas.JobDocument.model_validate_json(documents.job(state, summary.name, None, SpeedsNow()))
        assert summary.times == shown.times == rows.get(summary.name)
        assert shown.collectives == [row for row in plan.collectives if row.job == summary.name]
        for row in shown.collectives:
            if shown.times is not None and row.duty is not None:
                assert row.period_seconds == shown.times.iteration_seconds
                assert row.duty <= shown.times.duty + 1e-9
    own = [row for row in plan.collectives if row.job == "job0"]
    assert sum(row.duty for row in own if row.duty is not None) == pytest.approx(rows["job0"].duty)


def test_nothing_is_told_of_iterations_where_no_job_states_its_times() -> None:
    state = step_of(FABRIC, [TIMED], policy="fair")
    listed = schemas.JobList.model_validate_json(documents.jobs(state, None, SpeedsNow()))
    shown = schemas.JobDocument.model_validate_json(documents.job(state, "job0", None, SpeedsNow()))
    assert (listed.times, listed.jobs[0].times, shown.times) == (None, None, None)
    assert {(row.period_seconds, row.duty) for row in shown.collectives} == {(None, None)}


def told(state: ControllerState) -> dict[str, Any]:
    """Return the pieces of every flow, by its id."""
    every = [orjson.loads(documents.routes(state, host, SETTINGS))["flows"] for host in HOSTS]
    return {flow["id"]: flow["pieces"] for flows in every for flow in flows}


ALL = [{"flows": [{"src": a, "dst": b, "bytes": 1000} for a in HOSTS for b in HOSTS if a != b]}]


@pytest.mark.parametrize("policy", ["greedy", "split"])
def test_labels_are_those_of_the_spine_and_the_last_leaf_and_ports_say_the_path_class(policy: str) -> None:
    states = {name: step_of(FABRIC, ALL, enforcement=name, policy=policy) for name in rule_enforcements()}
    pieces = {name: told(state) for name, state in states.items()}
    labels = LabelBlock(BASE)
    bits = number_bits(FABRIC)
    for flow, plain in pieces["per_flow"].items():
        for one, labelled, steered in zip(
            plain, pieces["segment_routing"][flow], pieces["source_port"][flow], strict=True
        ):
            assert one["labels"] == steered["labels"] == []
            assert labelled == one | {"labels": labelled["labels"]}
            assert steered == one | {"udp_src": steered["udp_src"]}
            if one["path"] is None:
                assert labelled["labels"] == []
                continue
            spine, leaf = one["links"][2].split("->")
            last = leaf.split(":")[0]
            assert labelled["labels"] == [labels.spine(FABRIC.spine_index[spine]), labels.leaf(FABRIC.leaf_index[last])]
            assert FABRIC.path_names[(steered["udp_src"] - FIRST_PORT) >> bits] == one["path"]


def test_a_split_flow_is_shown_as_pieces_with_different_ports_and_shares_that_add_up_to_one() -> None:
    flows = [{"src": "h1", "dst": "h4", "bytes": 1000}]
    for enforcement in rule_enforcements():
        state = step_of(FABRIC, [{"flows": flows}], enforcement=enforcement, policy="ethereal")
        (pieces,) = told(state).values()
        assert len(pieces) == FABRIC.n_paths
        assert len({piece["udp_src"] for piece in pieces}) == len({piece["path"] for piece in pieces}) == len(pieces)
        assert sum(piece["share"] for piece in pieces) == pytest.approx(1)
        rates = [piece["rate_gbps"] / piece["share"] for piece in pieces]
        assert rates == pytest.approx([rates[0]] * len(rates))


@given(STEPS, st.none() | st.frozensets(st.sampled_from([switch.name for switch in FABRIC.switches])))
def test_a_job_is_active_once_the_switches_on_its_paths_enforce_the_newest_plan(
    state: ControllerState, lacking: frozenset[str] | None
) -> None:
    fabric, candidate = state.fabric, state.candidate
    assert fabric is not None
    assert candidate is not None
    rows, traffic = candidate.plan.assignment, candidate.traffic
    passes: dict[str, set[str]] = {job.name: set() for job in state.jobs if job.ports.size}
    for flow, path in zip(rows.flow.tolist(), rows.path.tolist(), strict=True):
        src, dst = (fabric.hosts[end[flow]].leaf for end in (traffic.src, traffic.dst))
        names = {src, dst}
        if path >= 0:
            links = fabric.ways.links_of(fabric.leaf_index[src], fabric.leaf_index[dst], path)
            names |= {name for link in links for name in re.split("[^a-z0-9]+", fabric.link_ids[link])}
        passes[traffic.collectives[traffic.collective[flow]].job] |= names
    known = lacking is not None and state.desired.mode != "ecmp"
    listed = orjson.loads(documents.jobs(state, lacking, SpeedsNow()))["jobs"]
    for row in listed:
        expected = known and row["name"] in passes and not passes[row["name"]] & (lacking or set())
        assert row["active"] == expected
        assert orjson.loads(documents.job(state, row["name"], lacking, SpeedsNow()))["active"] == expected


def test_nothing_is_active_while_the_switches_hash_everything() -> None:
    state = step_of(FABRIC, [{"flows": [{"src": "h1", "dst": "h4", "bytes": 8}]}], mode="ecmp")
    assert not orjson.loads(documents.job(state, "job0", frozenset(), now(state)))["active"]


def test_a_job_that_is_left_out_is_listed_with_the_reason() -> None:
    job = AdmittedJob(
        "a", b'{"weight": 2.5}', "r", 0, 7.5, "ann", np.zeros(3, np.int32), None, "hosts[0]: no such host"
    )
    known = step_of(FABRIC, [])
    state = dataclasses.replace(known, desired=DesiredState((job,)))
    (row,) = schemas.JobList.model_validate_json(documents.jobs(state, frozenset(), now(state))).jobs
    assert (row.flows, row.weight, row.active, row.left_out) == (0, 2.5, False, "hosts[0]: no such host")
    shown = schemas.JobDocument.model_validate_json(documents.job(state, "a", frozenset(), now(state)))
    assert (shown.flows, shown.left_out) == ([], "hosts[0]: no such host")


def test_without_a_plan_only_jobs_are_answered_without_speeds() -> None:
    planned = step_of(FABRIC, [{"flows": [{"src": "h1", "dst": "h4", "bytes": 8}]}])
    state = ControllerState(desired=planned.desired)
    (row,) = schemas.JobList.model_validate_json(documents.jobs(state, None, SpeedsNow())).jobs
    assert (row.bytes, row.flows, row.min_speed) == (8, 1, None)
    for answer in (
        lambda: documents.job(state, "job0", None, now(state)),
        lambda: documents.plan(state, 0.0, None),
        lambda: documents.routes(state, "h1", SETTINGS),
    ):
        with pytest.raises(UnavailableError):
            answer()
