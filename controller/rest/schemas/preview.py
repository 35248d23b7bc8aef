"""Previews of changes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema

from controller.model.choices.enforcement import Mode
from controller.rest.schemas.base import LARGEST_EPOCH, Count, Document, Epoch, Form, JobName, Speed, ThingId
from controller.rest.schemas.plans import PlanLevel

_JobDocument = Annotated[
    dict[str, Any],
    Field(description="a job document with a name"),
    WithJsonSchema({"$ref": "#/components/schemas/JobForm"}),
]


class PreviewForm(Form):
    """A change to preview: all parts together, applied to the present state."""

    put: list[_JobDocument] = Field([], description="jobs to push")
    delete: list[JobName] = Field([], description="names of jobs to delete")
    drain: list[ThingId] = Field([], description="ids of cables, switches, pods and planes")
    undrain: list[ThingId] = Field([], description="ids of cables, switches, pods and planes")
    policy: Annotated[str, StringConstraints(min_length=1, max_length=63)] | None = None
    seed: Annotated[int, Field(ge=0, le=LARGEST_EPOCH)] | None = None
    mode: Mode | None = None


class PlanValue(Document):
    """The objective of a plan."""

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
    """A job's lowest speed before and after; null if the job does not exist or does not use the network."""

    job: str
    before: Speed | None
    after: Speed | None


class PreviewDocument(Document):
    """The effect of a change that has not been made.

    ``epoch`` is the plan for comparison. ``moved``: ids of the flows that exist before and after the change and
    would have another path, at most 1,000 of them; ``moved_count`` counts all.
    """

    epoch: Epoch
    before: PlanValue
    after: PlanValue
    moved_count: Count
    moved: list[str]
    jobs: list[JobChange]
    still_used: list[str] = Field(
        description="drained cables that stay in use because no other path connects two leaves"
    )
