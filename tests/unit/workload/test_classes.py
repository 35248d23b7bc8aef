"""Jobs that state classes of priority."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.workload.describe import describe
from controller.workload.expand import combine, expand
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job

FABRIC = clos(2, 2, 4)
PAIR = {"src": "h1", "dst": "h5", "bytes": 9}


def job(**changes: Any) -> dict[str, Any]:
    return {
        "name": "a",
        "hosts": ["h1", "h5"],
        "collectives": [{"name": name, "op": "all_reduce", "ranks": [0, 1], "bytes": 9} for name in ("ep", "dp")],
        "flows": [PAIR | {"collective": "x"}],
    } | changes


def calls(ep: Any, dp: Any) -> list[dict[str, Any]]:
    row = {"op": "all_reduce", "ranks": [0, 1], "bytes": 9}
    return [{"name": "ep", "class": ep} | row, {"name": "dp", "class": dp} | row]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (job(**{"class": 4}), "class: 4: "),
        (job(**{"class": -1}), "class: -1: "),
        (job(**{"class": "high"}), "class: 'high': "),
        (job(**{"class": True}), "class: True: "),
        (job(priority=1), "priority: 1: "),
        (job(collectives=calls(1, 4)), "collectives[1].class: 4: "),
        (job(classes={"y": 1}), "classes.y: 1: the job has no collective of this name"),
        (job(classes={"x": 9}), "classes.x: 9: "),
        (job(classes={"dp": 1}), "classes.dp: 1: this collective already is described, where it may have 'class'"),
    ],
)
def test_a_class_that_cannot_be_is_refused_in_one_line(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as error:
        parse_job(document)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_collectives_have_their_class_or_that_of_the_job() -> None:
    given = parse_job(job(collectives=calls(2, 0), classes={"x": 1}, **{"class": 3}))
    same = parse_job(document_of(given))
    for each in (given, same):
        classes = {row.name: row.priority for row in expand(FABRIC, each).collectives}
        assert classes == {"ep": 2, "dp": 0, "x": 1}
        assert {kind.name: kind.priority for kind in describe(each, fabric=FABRIC).kinds} == classes
    of_job = expand(FABRIC, parse_job(job(**{"class": 3})))
    assert {row.priority for row in of_job.collectives} == {3}
    assert "class" not in document_of(parse_job(job()))


def test_a_model_names_collectives_that_may_have_a_class() -> None:
    document = {
        "name": "m",
        "model": {"layers": 4, "hidden": 64, "sequence": 64, "parameters": 1_000_000},
        "parallelism": {"dp": 4},
        "micro_batches": 1,
        "hosts": ["h1", "h2", "h5", "h6"],
    }
    name = parse_job(document).collectives[0].name
    given = parse_job(document | {"classes": {name: 2}})
    assert given.priority_of(name) == parse_job(document_of(given)).priority_of(name) == 2


def test_the_version_of_traffic_changes_with_classes_only() -> None:
    plain = combine([expand(FABRIC, parse_job(job()))])
    lowest = combine([expand(FABRIC, parse_job(job(**{"class": 0})))])
    higher = combine([expand(FABRIC, parse_job(job(**{"class": 1})))])
    assert plain.version == lowest.version != higher.version


def test_packets_that_look_alike_have_one_class() -> None:
    alike = parse_job(job(ports="unknown", collectives=calls(1, 0)))
    with pytest.raises(InputError, match=r"class: 0: packets of a/dp/0 look like those of a/ep/0, which has class 1"):
        expand(FABRIC, alike)
    one_class = parse_job(job(ports="unknown", **{"class": 1}))
    first = expand(FABRIC, one_class)
    other = dataclasses.replace(one_class, name="b", priority=2)
    with pytest.raises(InputError, match=r"class: 2: packets of b/.* look like those of a/.*, which has class 1"):
        expand(FABRIC, other, [first])
    expand(FABRIC, dataclasses.replace(other, priority=1), [first])
