"""Jobs of tenants: each tenant's weight is divided among its jobs, and nothing changes for other jobs."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairspine
from controller.model.errors import InputError
from controller.model.files.fabric_file import fabric_document, parse_fabric
from controller.model.tenant import Tenant
from controller.workload.expand import combine, expand
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from controller.workload.tenants import shares

CLOS = {"clos": {"spines": 1, "leaves": 2, "hosts_per_leaf": 4}}
WEIGHTS = st.floats(0.1, 10)


def job(number: int, **fields: Any) -> fairspine.Job:
    """A job that sends from host ``number`` of leaf 1 to that of leaf 2."""
    return fairspine.job(f"j{number}", flows=[{"src": f"h{number}", "dst": f"h{number + 4}", "bytes": 10**6}], **fields)


@given(
    st.dictionaries(st.sampled_from("abc"), WEIGHTS, min_size=1),
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), WEIGHTS), min_size=1, max_size=8),
)
def test_the_weights_of_a_tenants_jobs_add_up_to_its_own_in_the_proportions_of_theirs(
    tenants: dict[str, float], jobs: list[tuple[str | None, float]]
) -> None:
    stated = {f"j{i}": row for i, row in enumerate(jobs) if row[0] is None or row[0] in tenants}
    share = shares([Tenant(*each) for each in tenants.items()], stated)
    for name, weight in tenants.items():
        own = {key: of for key, (tenant, of) in stated.items() if tenant == name}
        if own:
            assert sum(share[key] for key in own) == pytest.approx(weight)
            assert [share[key] / weight for key in own] == pytest.approx(
                [of / sum(own.values()) for of in own.values()]
            )
    assert all(share[key] == weight for key, (tenant, weight) in stated.items() if tenant is None)


def test_two_tenants_share_a_full_link_equally_however_many_jobs_each_has() -> None:
    fabric = fairspine.fabric(CLOS | {"tenants": {"a": 1, "b": 1}})
    jobs = [job(1, tenant="a"), *(job(number, tenant="b") for number in (2, 3, 4))]
    made = fairspine.plan(fabric, jobs)
    assert made.plan.objective.speed == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])
    rows = made.document()["tenants"]
    assert [(row["name"], row["jobs"], row["flows"], row["bytes"]) for row in rows] == [
        ("a", 1, 1, 10**6),
        ("b", 3, 3, 3 * 10**6),
    ]
    assert [row["min_speed"] for row in rows] == pytest.approx([1 / 2, 1 / 6])
    assert [row["slowdown"] for row in rows] == [None, None]


def test_a_job_that_sends_nothing_takes_no_share_and_one_of_no_tenant_keeps_its_weight() -> None:
    fabric = fairspine.fabric(CLOS | {"tenants": {"a": 2, "idle": 5}})
    silent = fairspine.job("silent", hosts=["h1"], tenant="a", collectives=[])
    made = fairspine.plan(fabric, [silent, job(1, tenant="a"), job(2)])
    assert made.plan.objective.speed == pytest.approx([2 / 3, 1 / 3])
    assert [row["jobs"] for row in made.document()["tenants"]] == [1, 0]


def test_the_mean_slowdown_of_a_tenant_is_that_of_its_jobs() -> None:
    fabric = fairspine.fabric(CLOS | {"tenants": {"a": 1, "b": 1}})
    made = fairspine.plan(fabric, [job(1, tenant="a", compute_seconds=1e-4), job(2, tenant="b"), job(3, tenant="b")])
    document = made.document()
    slowdown = {row["job"]: row["slowdown"] for row in document["times"]["jobs"]}
    assert [row["slowdown"] for row in document["tenants"]] == pytest.approx(
        [slowdown["j1"], (slowdown["j2"] + slowdown["j3"]) / 2]
    )


def test_jobs_of_no_tenant_are_planned_alike_on_a_fabric_with_tenants() -> None:
    jobs = [job(1, weight=2.0), job(2, compute_seconds=1e-4)]
    plain, shared = (
        fairspine.plan(fairspine.fabric(CLOS | more), jobs).document() for more in ({}, {"tenants": {"a": 1}})
    )
    assert [row["jobs"] for row in shared.pop("tenants")] == [0]
    assert orjson.dumps(plain | {"seconds": 0}) == orjson.dumps(shared | {"seconds": 0})


def test_documents_of_fabrics_and_jobs_keep_tenants() -> None:
    fabric = parse_fabric(CLOS | {"tenants": {"b": 2.5, "a": 1}})
    assert parse_fabric(fabric_document(fabric)) == fabric
    assert fabric.without_links(["spine1"]).tenants == fabric.tenants == (Tenant("b", 2.5), Tenant("a", 1.0))
    assert fabric.version != parse_fabric(CLOS).version
    stated = parse_job({"name": "j", "tenant": "a", "flows": [{"src": "h1", "dst": "h5", "bytes": 9}]})
    assert parse_job(document_of(stated)).tenant == "a"


@pytest.mark.parametrize(
    ("tenants", "message"),
    [
        ({"a": 0}, "tenants.a: 0: input should be greater than or equal to 0.001"),
        ({"a": -1}, "tenants.a: -1: input should be greater than or equal to 0.001"),
        ({"a": 1001}, "tenants.a: 1001: input should be less than or equal to 1000"),
        ({"a": float("nan")}, "tenants.a: nan: input should be "),
        ({"a": "much"}, "tenants.a: 'much': input should be a valid number"),
        ({"a b": 1}, "tenants.a b: 'a b': must be 1 to 63 letters"),
        (["a"], "tenants: ['a']: input should be a mapping"),
    ],
)
def test_what_is_no_weight_of_a_tenant_is_refused(tenants: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_fabric(CLOS | {"tenants": tenants}, source="f.yaml")
    assert str(caught.value).startswith(f"f.yaml: {message}")


@pytest.mark.parametrize(("tenants", "there"), [({}, "it has none"), ({"a": 1, "b": 1}, "its tenants are a, b")])
def test_a_job_of_an_unknown_tenant_is_refused(tenants: dict[str, float], there: str) -> None:
    fabric = parse_fabric(CLOS | {"tenants": tenants})
    stated = parse_job({"name": "j", "tenant": "c", "flows": [{"src": "h1", "dst": "h5", "bytes": 9}]})
    with pytest.raises(InputError, match=f"tenant: 'c': the fabric has no such tenant; {there}"):
        expand(fabric, stated)


def test_the_version_of_traffic_tells_tenants_apart() -> None:
    fabric = parse_fabric(CLOS | {"tenants": {"a": 1, "b": 1}})
    versions = {
        combine(
            [expand(fabric, parse_job({"name": "j", "flows": [{"src": "h1", "dst": "h5", "bytes": 9}]} | own))]
        ).version
        for own in ({}, {"tenant": "a"}, {"tenant": "b"})
    }
    assert len(versions) == 3
