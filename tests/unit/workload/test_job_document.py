"""Jobs written out as documents again, and names, weights and claims at the edge of what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given

from controller.model.errors import InputError
from controller.workload.expand import expand
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from tests.unit.workload.documents import FABRIC, PAIRED, jobs

PAIR = {"src": "h1", "dst": "h4", "bytes": 9}


@given(document=jobs())
def test_a_job_written_out_as_json_reads_back_as_the_same_job_and_flows(document: dict[str, Any]) -> None:
    job = parse_job(document)
    again = parse_job(orjson.loads(orjson.dumps(document_of(job))))
    assert repr(again) == repr(job)
    one, other = expand(PAIRED, job), expand(PAIRED, again)
    assert (one.collectives, one.weight) == (other.collectives, other.weight)
    for column in ("src", "dst", "bytes", "collective", "number", "udp_src"):
        assert np.array_equal(getattr(one, column), getattr(other, column))


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_urls_resolve_away_is_refused(name: str) -> None:
    with pytest.raises(InputError) as error:
        parse_job({"name": name})
    assert (error.value.field, error.value.value) == ("name", name)


@pytest.mark.parametrize("weight", [1e-300, 1e-7, 1e7])
def test_a_weight_that_would_drown_the_others_in_rounding_is_refused(weight: float) -> None:
    with pytest.raises(InputError) as error:
        parse_job({"name": "a", "weight": weight})
    assert (error.value.field, error.value.value) == ("weight", weight)


def test_a_flow_that_is_never_sent_claims_no_port() -> None:
    """h1 and h2 of the paired fabric are one server; a flow without bytes has no packets."""
    first = {"src": "h1", "dst": "h2", "bytes": 9, "udp_src": 50000}
    others = [expand(FABRIC, parse_job({"name": "a", "flows": [first, PAIR | {"udp_src": 50000}]}))]
    within = parse_job({"name": "b", "flows": [first]})
    empty = parse_job({"name": "b", "flows": [PAIR | {"bytes": 0, "udp_src": 50000}]})
    assert expand(PAIRED, within, others).n_flows == expand(FABRIC, empty, others).n_flows == 0
    with pytest.raises(InputError, match="already has this port"):
        expand(FABRIC, within, others)
