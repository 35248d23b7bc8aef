"""Jobs and their part of the plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from controller.rest.schemas.base import AnyClass, Bytes, Document, Revision, Speed
from controller.rest.schemas.plans import (
    TENANTS,
    ExpectedIteration,
    ExpectedSlowdown,
    PlanCollective,
    PlanFlow,
    TenantRow,
)

LEFT_OUT = Field(None, description="the reason why the job is stored but not planned; null: it is planned")
SPEED = Field(
    description="of its slowest collective by the rules that switches hold; null where these do not decide it (mode "
    "ecmp, a flow without a live path in mode frozen), or some switch has not confirmed them"
)

TIMES = Field(
    None,
    description="expected iterations under the plan; null if no job states computing times, or the job does not use "
    "the network",
)


TENANT = Field(None, description="whose job it is; missing for a job of no tenant")
PLANNED_WEIGHT = Field(
    None, description="of a job of a tenant: its share of the weight of that, among all jobs; null: it is not planned"
)


class JobSummary(Document):
    """A job without its flows. ``by``: the name of the token that pushed the present document."""

    name: str
    revision: Revision
    changed: AwareDatetime
    by: str
    digest: str | None = Field(None, description="SHA-256 of the document as it was sent, in hexadecimal")
    weight: Annotated[float, Field(gt=0)]
    collectives: Annotated[int, Field(ge=0)]
    flows: Annotated[int, Field(ge=0)]
    bytes: Bytes
    min_speed: Speed | None = Field(
        description="of its slowest collective in the newest plan; null where none is on the network"
    )
    speed: Speed | None = SPEED
    times: ExpectedIteration | None = TIMES
    active: bool | None = Field(
        description="whether the switches enforce the newest plan of the job; null in the answer of a follower"
    )
    left_out: str | None = LEFT_OUT
    tenant: str | None = TENANT
    planned_weight: Annotated[float, Field(gt=0)] | None = PLANNED_WEIGHT
    classes: list[AnyClass] | None = Field(
        None, description="classes of priority of its collectives, stated or chosen; missing if all have 0, the lowest"
    )


class JobList(Document):
    """All jobs, sorted by name."""

    jobs: list[JobSummary]
    times: ExpectedSlowdown | None = Field(
        None, description="expected slowdown of the plan; null if no job states computing times"
    )
    tenants: list[TenantRow] | None = TENANTS


class JobDocument(Document):
    """A job with its part of the plan ``epoch``. ``active``: the switches enforce this plan (null: of a follower)."""

    name: str
    revision: Revision
    changed: AwareDatetime
    by: str
    weight: Annotated[float, Field(gt=0)]
    bytes: Bytes
    min_speed: Speed | None = Field(description="of its slowest collective in this plan")
    speed: Speed | None = SPEED
    times: ExpectedIteration | None = TIMES
    epoch: Annotated[int, Field(ge=0)]
    active: bool | None
    left_out: str | None = LEFT_OUT
    tenant: str | None = TENANT
    planned_weight: Annotated[float, Field(gt=0)] | None = PLANNED_WEIGHT
    unroutable: list[str]
    collectives: list[PlanCollective]
    flows: list[PlanFlow]
