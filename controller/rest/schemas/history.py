"""Previous plans."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from controller.model.enforcement import Enforcement, Mode
from controller.rest.schemas.base import Count, Document, Epoch, Form, Seconds, Share, UdpPort


class RollbackForm(Form):
    """An empty object: the path identifies the plan."""


class PlanSummary(Document):
    """A plan and its cause, as text. ``by``: the name of the token that requested it."""

    epoch: Epoch
    at: AwareDatetime
    cause: str
    by: str | None = Field(description="null if a change of the network was the cause")
    policy: str
    seed: Annotated[int, Field(ge=0)]
    mode: Mode
    enforcement: Enforcement
    fabric_version: str
    traffic_version: str
    links_down: list[str]
    drained: list[str]
    jobs: list[str]
    min_speed: float
    min_level: float
    bound_split: float | None
    bound_single: float | None
    gap: float | None
    seconds: Seconds
    flows: Count
    moved: Count = Field(description="flows of the previous plan that have another path now")
    unroutable: Count
    rollback_of: Epoch | None


class PlanHistory(Document):
    """Stored plans, newest first. If ``next_before`` is not null, request the next page with ``before=`` this value."""

    plans: list[PlanSummary]
    next_before: Epoch | None


class KeptPath(Document):
    """A path of the plan: for the traffic from one host to another with one UDP source port."""

    src: str
    dst: str
    udp_src: UdpPort | None = Field(
        description="null: all traffic between the two hosts whose source ports are unknown"
    )
    path: str = Field(description="path class, such as spine2")
    share: Share


class PlanRecord(PlanSummary):
    """A stored plan with its paths through the fabric; traffic within one leaf has no path."""

    paths: list[KeptPath] | None = Field(description="null if only the summary is stored")
