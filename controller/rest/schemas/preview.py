"""What a change would do."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema

from controller.model.enforcement import Mode
from controller.rest.schemas.base import LARGEST_EPOCH, Count, Document, Epoch, Form, JobName, Speed, ThingId
from controller.rest.schemas.plans import PlanLevel

_JobDocument = Annotated[
    dict[str, Any],
    Field(description="a job's document, with its name"),
    WithJsonSchema({"$ref": "#/components/schemas/JobForm"}),
]


class PreviewForm(Form):
    """A change to try: everything given here together, on top of what is there now."""

    put: list[_JobDocument] = Field([], description="jobs as they would be pushed")
    delete: list[JobName] = Field([], description="jobs to forget")
    drain: list[ThingId] = Field([], description="ids of cables, spines and leaves")
    undrain: list[ThingId] = Field([], description="ids of cables, spines and leaves")
    policy: Annotated[str, StringConstraints(min_length=1, max_length=63)] | None = None
    seed: Annotated[int, Field(ge=0, le=LARGEST_EPOCH)] | None = None
    mode: Mode | None = None


class PlanValue(Document):
    """What a plan is worth."""

    policy: str
    seed: Annotated[int, Field(ge=0)]
    mode: Mode
    min_speed: float
    min_level: float
    bound_split: float | None
    bound_single: float | None
    gap: float | None
    levels: list[PlanLevel]
    flows: Count
    unroutable: Count


class JobChange(Document):
    """A job's slowest collective before and after; null where the job is not there or not on the network."""

    job: str
    before: Speed | None
    after: Speed | None


class PreviewDocument(Document):
    """What a change would do; nothing has changed.

    ``epoch`` is the plan that it was compared with. ``moved``: ids of the flows that are there before and after and
    would have another path, at most 1,000 of them; ``moved_count`` counts all.
    """

    epoch: Epoch
    before: PlanValue
    after: PlanValue
    moved_count: Count
    moved: list[str]
    jobs: list[JobChange]
    still_used: list[str] = Field(description="drained cables that stay in use, because nothing else joins two leaves")
