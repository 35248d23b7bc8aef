"""Jobs that say what their collectives wait for."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.timing import JobTiming
from controller.model.waits import FOR_COMPUTING, Waits, waits_among
from controller.workload.expand import combine, expand
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from controller.workload.waits import not_overlapped

PAIR = {"src": "h1", "dst": "h4", "bytes": 9}


def job(**changes: Any) -> dict[str, Any]:
    rows = [{"name": name, "op": "all_reduce", "ranks": [0, 1], "bytes": 9} for name in ("ep", "dp")]
    return {
        "name": "a",
        "hosts": ["h1", "h4"],
        "collectives": [rows[0], rows[1] | changes],
        "flows": [PAIR | {"collective": name} for name in ("x", "y")],
    }


BAD = [
    (job(overlap="network"), "collectives[1].overlap: 'network': "),
    (job(overlap=True), "collectives[1].overlap: True: "),
    (job(after=["tp"]), "collectives[1].after[0]: 'tp': the job has no collective of this name"),
    (job(after=["ep", "ep"]), "collectives[1].after[1]: 'ep': this collective is listed twice"),
    (job(after=["dp"]), "collectives[1].after: 'dp': these collectives wait for each other: dp"),
    (job(after=["x"]) | {"after": {"x": ["dp"]}}, "these collectives wait for each other: "),
    (job(after=["x"]) | {"phases": {"x": 2}}, "collectives[1].after[0]: 'x': this collective is in the later phase 2"),
    (job() | {"after": {"x": ["y"]}, "phases": {"y": 1}}, "after.x[0]: 'y': this collective is in the later phase 1"),
    (job() | {"after": {"z": ["y"]}}, "after.z: ['y']: no flow or matrix belongs to this collective"),
    (job() | {"after": {"dp": ["y"]}}, "after.dp: ['y']: this collective already is described, where it may have"),
    (job() | {"overlap": {"dp": "compute"}}, "overlap.dp: 'compute': this collective already is described"),
    (job() | {"overlap": {"x": "network"}}, "overlap.x: 'network': "),
    (job(until="begin"), "collectives[1].until: 'begin': must be a phase, 0 to 1000000, or 'end'"),
    (job(until=-1), "collectives[1].until: -1: must be a phase"),
    (job(until=True), "collectives[1].until: True: must be a phase"),
    (job(until=3), "collectives[1].until: 3: no collective is in this phase"),
    (job(phase=2, until=0), "collectives[1].until: 0: the collective begins in the later phase 2"),
    (job() | {"until": {"x": 1}}, "until.x: 1: no collective is in this phase"),
    (job() | {"until": {"z": "end"}}, "until.z: 'end': no flow or matrix belongs to this collective"),
    (
        job() | {"until": {"dp": "end"}},
        "until.dp: 'end': this collective already is described, where it may have 'until'",
    ),
]


@pytest.mark.parametrize(("document", "start"), BAD)
def test_what_makes_no_sense_is_refused_with_its_field(document: dict[str, Any], start: str) -> None:
    with pytest.raises(InputError) as error:
        parse_job(document)
    assert start in str(error.value)


def test_traffic_says_what_collectives_wait_for_and_differs_by_it_alone() -> None:
    fabric = clos(2, 3, 3)
    waiting = parse_job(job(overlap="compute", after=["x"]) | {"overlap": {"x": "compute"}, "after": {"y": ["ep"]}})
    plain = parse_job(job())
    traffic, other = (combine([expand(fabric, each)]) for each in (waiting, plain))
    assert {row.name: row.waits for row in traffic.collectives} == {
        "ep": FOR_COMPUTING,
        "dp": Waits(computing=False, after=("x",)),
        "x": Waits(computing=False),
        "y": Waits(after=("ep",)),
    }
    assert {row.waits for row in other.collectives} == {FOR_COMPUTING}
    assert np.array_equal(traffic.bytes, other.bytes)
    assert traffic.version != other.version


def test_until_is_a_later_phase_or_none() -> None:
    parsed = parse_job(job(until="end") | {"phases": {"x": 1, "y": 3}, "until": {"x": "end", "y": 3}})
    assert parsed.waits_by_name == {"dp": Waits(until=3), "x": Waits(until=3)}
    assert repr(parse_job(document_of(parsed)).waits_by_name) == repr(parsed.waits_by_name)
    assert document_of(parsed)["until"] == {"x": 3}
    fabric = clos(2, 3, 3)
    one, other, none = (
        combine([expand(fabric, each)])
        for each in (parsed, parse_job(job(until=1) | {"phases": {"x": 1, "y": 3}}), parse_job(job()))
    )
    assert len({one.version, other.version, none.version}) == 3
    # Where no collective of a phase is left, the phase before it waits.
    assert waits_among(parsed.waits_by_name, parsed.phase_by_name, ["ep", "dp", "x"]) == {"dp": Waits(until=1)}


def test_what_spans_phases_is_waited_for_in_a_later_one() -> None:
    """x of phase 1 is after dp, which may take until then, and after ep, which has ended."""
    parsed = parse_job(job(until=1) | {"phases": {"x": 1}, "after": {"x": ["ep", "dp"], "y": ["dp"]}})
    waits, phase = parsed.waits_by_name, parsed.phase_by_name
    assert waits_among(waits, phase, ["ep", "dp", "x", "y"]) == {
        "dp": Waits(until=1),
        "x": Waits(after=("dp",)),
        "y": Waits(after=("dp",)),
    }


@given(st.data())
def test_a_job_written_out_reads_back_as_the_same_job(data: st.DataObject) -> None:
    names = [f"c{i}" for i in range(6)]
    described = data.draw(st.integers(0, 6))
    waits = {
        name: (data.draw(st.booleans()), data.draw(st.lists(st.sampled_from(names[:i]), unique=True)) if i else [])
        for i, name in enumerate(names)
    }
    rows = [
        {"name": name, "op": "all_reduce", "ranks": [0, 1], "bytes": 9, "after": waits[name][1]}
        | ({"overlap": "compute"} if waits[name][0] else {})
        for name in names[:described]
    ]
    given_by_flows = names[described:]
    document = {
        "name": "a",
        "hosts": ["h1", "h4"],
        "collectives": rows,
        "flows": [PAIR | {"collective": name} for name in given_by_flows],
        "overlap": {name: "compute" for name in given_by_flows if waits[name][0]},
        "after": {name: waits[name][1] for name in given_by_flows if waits[name][1]},
    }
    parsed = parse_job(document)
    for name in names:
        assert parsed.waits_by_name.get(name, FOR_COMPUTING) == Waits(not waits[name][0], tuple(waits[name][1]))
    assert repr(parse_job(document_of(parsed))) == repr(parsed)


def test_collectives_that_take_no_time_pass_on_what_they_wait_for() -> None:
    """x overlaps, but waits for dp, which waits for the computing."""
    document = job() | {"overlap": {"x": "compute"}, "after": {"x": ["dp"], "y": ["x"]}}
    parsed = parse_job(document)
    waits, phase = parsed.waits_by_name, parsed.phase_by_name
    assert waits_among(waits, phase, {"dp", "y"}) == {"y": Waits(after=("dp",))}
    assert waits_among(waits, phase, {"x"}) == {}
    assert waits_among(waits, phase, {"dp", "x"}) == {"x": Waits(computing=False, after=("dp",))}
    # What is in an earlier phase has ended.
    assert waits_among(waits, {"x": 1, "y": 1}, {"dp", "x", "y"}) == {
        "x": Waits(computing=False),
        "y": Waits(after=("x",)),
    }


@pytest.mark.parametrize(
    ("timing", "expected"),
    [
        (None, ("dp", "x")),
        (JobTiming(((0, 0.0), (1, 0.2))), ("dp",)),
        (JobTiming(((0, 0.1),)), ("x",)),
        (JobTiming(period_seconds=1.0), ("x",)),
        (JobTiming(((0, 0.1), (1, 0.2))), ()),
    ],
)
def test_what_overlaps_with_no_computing_is_named(timing: JobTiming | None, expected: tuple[str, ...]) -> None:
    parsed = parse_job(job(overlap="compute") | {"overlap": {"x": "compute"}, "phases": {"x": 1}})
    assert set(not_overlapped(dataclasses.replace(parsed, timing=timing))) == set(expected)
