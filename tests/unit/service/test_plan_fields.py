"""The fields of a plan record are written once: the table and the documents follow them."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given

from controller.core.plan_record import PlanRecord
from controller.rest import schemas
from controller.store.schema import PLANS
from controller.views.plan_history import summary
from tests.unit.store.kept import plans

NAMES = {field.name for field in fields(PlanRecord)}


def test_the_table_has_a_column_for_every_field_but_the_paths() -> None:
    assert set(PLANS.columns.keys()) == NAMES - {"paths", "by"} | {"caused_by"}


def test_the_schemas_of_the_documents_have_the_fields_of_the_record() -> None:
    assert set(schemas.PlanSummary.model_fields) == NAMES - {"paths"}
    assert set(schemas.PlanRecord.model_fields) == NAMES


@given(plans(7))
def test_a_summary_holds_every_field_but_the_paths(record: PlanRecord) -> None:
    assert set(summary(record)) == NAMES - {"paths"}
