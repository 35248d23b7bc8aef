"""Errors name a field of the document that was given, whatever forms its values may have."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.job_file import parse_job
from tests.unit.laws import examples

WHOLE: dict[str, Any] = {
    "name": "a",
    "weight": 1,
    "hosts": ["h1", "h5"],
    "collectives": [
        {"name": "dp", "op": "all_reduce", "ranks": [0, 1], "bytes": "1GB", "phase": 0, "after": [], "until": "end"}
    ],
    "flows": [{"src": "h1", "dst": "h5", "bytes": 5, "collective": "x"}],
    "matrix": {"hosts": ["h1", "h5"], "bytes": [[0, 5], [5, 0]], "collective": "y"},
    "phases": {"x": 1},
    "classes": {"x": 1},
    "until": {"x": "end"},
    "after": {"x": ["dp"]},
    "overlap": {"x": "compute"},
    "compute_seconds": {"0": 0.5},
}
VALUES = st.sampled_from(
    [None, "", "x", -1, 1.5, True, [], {}, {"0": -1}, {"x": "y"}, {"0": {"0": 1}}, [1], [[]], [{}]]
)


def test_the_whole_document_is_accepted() -> None:
    assert parse_job(WHOLE).name == "a"


@settings(max_examples=examples(300, 5000), deadline=None)
@given(st.sampled_from(sorted(WHOLE)), VALUES)
@example("compute_seconds", "x")
@example("compute_seconds", {"0": -1})
def test_the_field_of_an_error_is_in_the_document(key: str, value: Any) -> None:
    document = WHOLE | {key: value}
    try:
        parse_job(document)
    except InputError as error:
        *way, last = re.findall(r"[^.\[\]]+", error.field)
        here: Any = document
        for part in way:
            here = here[int(part) if isinstance(here, list) else part]
        shown = [str(each) for each in (range(len(here)) if isinstance(here, list) else here)]
        assert last in shown or error.value is None, error


def test_the_error_is_that_of_the_form_which_the_value_has() -> None:
    for key, field, reason in (
        ("0", "compute_seconds.0", "greater than or equal to 0"),
        ("x", "compute_seconds.x", "whole number"),
    ):
        try:
            parse_job(WHOLE | {"compute_seconds": {key: -1}})
        except InputError as error:
            assert error.field.startswith(field)
            assert reason in error.reason
        else:
            raise AssertionError("a negative time was accepted")
