"""Plans that were made before."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from controller.model.enforcement import Enforcement, Mode
from controller.rest.schemas.base import Count, Document, Epoch, Form, Seconds, Share, UdpPort


class RollbackForm(Form):
    """Nothing: which plan it is, the path says."""


class PlanSummary(Document):
    """A plan that was made, and why. ``cause`` is for people; ``by``: the token whose request it was."""

    epoch: Epoch
    at: AwareDatetime
    cause: str
    by: str | None = Field(description="null where the network was the cause")
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
    moved: Count = Field(description="flows that were there before and have another path now")
    unroutable: Count
    rollback_of: Epoch | None


class PlanHistory(Document):
    """Kept plans, newest first. There are older ones where ``next_before`` is not null: ask with ``before=`` it."""

    plans: list[PlanSummary]
    next_before: Epoch | None


class KeptPath(Document):
    """Where the plan sent what a host sends another from one UDP source port."""

    src: str
    dst: str
    udp_src: UdpPort | None = Field(description="null: whatever the host sends the other from ports that are unknown")
    path: str = Field(description="the path's class, such as spine2")
    share: Share


class PlanRecord(PlanSummary):
    """A kept plan with its paths through the fabric; traffic within one leaf has none."""

    paths: list[KeptPath] | None = Field(description="null where only the summary is kept")
