"""Jobs and their part of the plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from controller.rest.schemas.base import Bytes, Document, Revision, Speed
from controller.rest.schemas.plans import ExpectedIteration, ExpectedSlowdown, PlanCollective, PlanFlow

LEFT_OUT = Field(None, description="why it is kept and not planned: the fabric does not have its hosts; null: it is")
SPEED = Field(
    description="of its slowest collective by the rules that switches hold; null where these do not decide it (mode "
    "ecmp, a flow without a live path in mode frozen), or some switch has not confirmed them"
)

TIMES = Field(None, description="under the plan; null where no job states computing times, or it is not on the network")


class JobSummary(Document):
    """A job without its flows. ``by``: the token that pushed it as it is now."""

    name: str
    revision: Revision
    changed: AwareDatetime
    by: str
    weight: Annotated[float, Field(gt=0)]
    collectives: Annotated[int, Field(ge=0)]
    flows: Annotated[int, Field(ge=0)]
    bytes: Bytes
    min_speed: Speed | None = Field(
        description="of its slowest collective in the newest plan; null where none is on the network"
    )
    speed: Speed | None = SPEED
    times: ExpectedIteration | None = TIMES
    active: bool = Field(description="whether the switches enforce its present plan")
    left_out: str | None = LEFT_OUT


class JobList(Document):
    """All jobs, by name."""

    jobs: list[JobSummary]
    times: ExpectedSlowdown | None = Field(None, description="of the plan; null: no job states computing times")


class JobDocument(Document):
    """A job with its part of the plan of that epoch. ``active``: the switches enforce it."""

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
    active: bool
    left_out: str | None = LEFT_OUT
    unroutable: list[str]
    collectives: list[PlanCollective]
    flows: list[PlanFlow]
