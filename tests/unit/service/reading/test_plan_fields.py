"""The fields of a plan record are written once: the table and the documents follow them."""

from __future__ import annotations

import dataclasses
from dataclasses import fields
from types import SimpleNamespace

from hypothesis import given

from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import StateChange
from controller.rest import schemas
from controller.store.schema import PLANS
from controller.store.store_mapping import plan_from, rows_of
from controller.views.plan_history import event, summary
from tests.unit.store.kept import plans

NAMES = {field.name for field in fields(PlanRecord)}


def test_the_table_has_a_column_for_every_field_but_the_paths() -> None:
    assert set(PLANS.columns.keys()) == NAMES - {"paths", "by"} | {"caused_by"}


def test_the_schemas_of_the_documents_have_the_fields_of_the_record() -> None:
    assert set(schemas.PlanSummary.model_fields) == NAMES - {"paths"}
    assert set(schemas.PlanRecord.model_fields) == NAMES


@given(plans(7))
def test_a_row_holds_every_field_but_the_paths_and_gives_the_record_back(record: PlanRecord) -> None:
    (row,) = rows_of(StateChange(plans=(record,))).plans
    assert set(row) == set(PLANS.columns.keys())
    assert plan_from(SimpleNamespace(**row)) == dataclasses.replace(record, paths=None)


@given(plans(7))
def test_the_event_of_a_plan_holds_every_field_that_is_no_list(record: PlanRecord) -> None:
    lists = {name for name in NAMES if isinstance(getattr(record, name), tuple)}
    assert set(event(record)) == NAMES - lists - {"paths", "at"}


@given(plans(7))
def test_a_summary_holds_every_field_but_the_paths(record: PlanRecord) -> None:
    assert set(summary(record)) == NAMES - {"paths"}
