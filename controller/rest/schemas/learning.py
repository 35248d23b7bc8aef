"""Sightings of traffic, and the jobs learned from them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, FiniteFloat

from controller.model.choices.learning import Learning
from controller.rest.schemas.base import Count, Document, Form, JobName, Seconds, Speed, ThingId, UdpPort

MOST_QPS, MOST_SIGHTINGS = 10_000, 100_000
LARGEST_TALLY = 2**62


class SightingQp(Form):
    """A QP as its packets show it."""

    src: ThingId = Field(description="sending host, by name or IP address")
    dst: ThingId = Field(description="receiving host, by name or IP address")
    protocol: Literal["roce", "tcp"] = Field(
        default="roce", description="tcp: all TCP connections from one host to the other, which have no other members"
    )
    udp_src: UdpPort | None = Field(default=None, description="UDP source port; null: the host does not know it")
    dst_qp: Annotated[int, Field(ge=0, lt=2**24)] = Field(
        default=0, description="QP number at the receiver; any number that tells QPs of the same hosts apart"
    )
    open: bool | None = Field(
        default=None,
        description="tcp: whether the hosts have a connection now, sending or not; null: the sender does not know it",
    )


class SightingsForm(Form):
    """What QPs had sent at some times, as columns of equal length."""

    qps: Annotated[list[SightingQp], Field(min_length=1, max_length=MOST_QPS)]
    qp: Annotated[list[Count], Field(max_length=MOST_SIGHTINGS)] = Field(description="index into qps")
    at: Annotated[list[Annotated[FiniteFloat, Field(ge=0)]], Field(max_length=MOST_SIGHTINGS)] = Field(
        description="seconds since 1970, within a minute of the controller's clock"
    )
    bytes: Annotated[list[Annotated[int, Field(ge=0, lt=LARGEST_TALLY)]], Field(max_length=MOST_SIGHTINGS)] = Field(
        description="payload bytes that the QP has sent so far"
    )


class SightingsTaken(Document):
    """How many QPs are known by now."""

    qps: Count


class LearningForm(Form):
    """Whether jobs are learned from their traffic, and whether they are planned."""

    learning: Learning


class LearningDocument(Document):
    """Whether jobs are learned from their traffic, and whether they are planned.

    ``off``: no traffic is looked at. ``observe``: learned jobs are shown. ``act``: they are planned, too.
    """

    learning: Learning
    since: AwareDatetime | None = Field(description="null: since the start, by the option")
    by: str | None


class LearnedGroupDocument(Document):
    """QPs of a learned job that send at the same time and carry equal volumes."""

    shape: Literal["ring", "direct", "flows"]
    phase: Count
    flows: Count
    hosts: Count
    bytes: Count = Field(description="of each flow in an iteration; in a second, where no period shows")


class LearnedSummary(Document):
    """A job that was learned from sightings."""

    name: JobName
    hosts: Count
    flows: Count
    bytes: Count = Field(description="of all flows in an iteration")
    period_seconds: Seconds | None = Field(description="of an iteration; null: none shows")
    iterations: Count = Field(description="seen so far, at most those that are kept")
    confidence: Annotated[float, Field(ge=0, le=1)] = Field(
        description="part of the flows whose volume is known, less with fewer than three iterations, and less by the "
        "relative standard deviation of the volumes between iterations"
    )
    planned: bool = Field(description="whether all of its flows are in the plan, whatever the name they have there")
    planned_flows: Count = Field(description="how many of its flows are in the plan")
    hashed_speed: Speed | None = Field(description="of its slowest group if its flows are hashed; null: not known yet")
    planned_speed: Speed | None = Field(description="of its slowest group if its flows are planned")
    seen: str = Field(description="time of the newest sighting")
    expires: str = Field(description="when the job is forgotten unless it is seen again")
    groups: list[LearnedGroupDocument]


class LearnedList(Document):
    """The learned jobs, and what was seen."""

    learning: Learning
    qps: Count = Field(description="QPs that are known")
    ignored: Count = Field(description="sightings that told nothing: late ones, and packets that were sent again")
    jobs: list[LearnedSummary]


class LearnedDocument(Document):
    """A learned job with the document that would be pushed for it."""

    summary: LearnedSummary
    job: dict[str, object] = Field(description="a job document, as PUT /v1/jobs/{name} takes it")
