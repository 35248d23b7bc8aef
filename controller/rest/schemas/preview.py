"""Previews of changes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, WithJsonSchema

from controller.model.choices.enforcement import Mode
from controller.rest.schemas.base import (
    LARGEST_EPOCH,
    Count,
    Document,
    EnforcementName,
    Epoch,
    Form,
    JobName,
    Speed,
    ThingId,
)
from controller.rest.schemas.plans import PlanLevel
from controller.rest.schemas.trace import Spread

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
    enforcement: EnforcementName | None = None


class PlanValue(Document):
    """The objective of a plan, and the speed of the slowest job when switches follow it as the mode says.

    ``slowest`` is null in mode ecmp, where hashing decides: ``expected`` then has the outcome over several hash seeds.
    It is 0 if some flow of a job has no path. The other values are planned, of the flows that have a path.
    """

    policy: str
    seed: Annotated[int, Field(ge=0)]
    mode: Mode
    enforcement: EnforcementName
    slowest: Speed | None
    expected: Spread | None
    most_rules: Count = Field(description="rules of the switch with the most, if the mode is not frozen")
    min_speed: float
    min_level: float
    bound_split: float | None
    bound_single: float | None
    gap: float | None
    levels: list[PlanLevel]
    flows: Count
    unroutable: Count


class JobChange(Document):
    """A job's lowest speed before and after.

    Null if the job does not exist, does not use the network, or rules do not decide it: in mode ecmp there is the
    expected outcome over several hash seeds.
    """

    job: str
    before: Speed | None
    after: Speed | None
    before_expected: Spread | None = None
    after_expected: Spread | None = None


class PreviewedDrain(Document):
    """A cable, switch, pod or plane that would be drained, and how this would end (as of ``DrainDocument``)."""

    id: str
    outcome: Literal["drained", "partly", "not possible"]
    cables: list[str]
    still_used: list[str]


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
    drains: list[PreviewedDrain]
    still_used: list[str] = Field(
        description="drained cables that stay in use because no other path connects two leaves"
    )
