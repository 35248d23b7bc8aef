"""The effect of failures on jobs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller.model.choices.failure_kind import FailureKind
from controller.rest.schemas.base import Count, Document, Epoch, Form, Speed

Kinds = Annotated[list[Annotated[FailureKind, Field(strict=False)]], Field(min_length=1)]


class SurvivalForm(Form):
    """The failures to analyse: by default, each single failure of every kind."""

    kinds: Kinds = Field(
        list(FailureKind),
        description="what fails: a cable, a spine, aggregation switch or core, the cables of two switches",
    )
    pairs: bool = Field(False, description="every two failures at the same time, in place of each one")
    above: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="also apply the worst failures one after another until some job is below this speed"
    )


class FailureOutcome(Document):
    """The plan after a failure. Of speeds, 1 is the time that a collective takes alone on the fabric with all links."""

    kinds: list[FailureKind]
    names: list[str] = Field(description="leaf1-spine2, spine3, or leaf1-spine2:* for all parallel cables")
    min_speed: Speed
    speeds: list[Speed | None] = Field(description="in the order of jobs; null where a job is not on the network")
    unroutable: Count = Field(description="flows without a path")
    moved: Count = Field(description="flows that would leave their present paths")


class SurvivalDocument(Document):
    """The speed of every job after each failure, worst first. Nothing has changed."""

    epoch: Epoch = Field(description="the plan whose paths were in force")
    jobs: list[str]
    before: FailureOutcome
    failures: list[FailureOutcome]
    above: Speed | None
    sequence: list[FailureOutcome] | None = Field(description="the worst failures one after another")
    bears_at_most: Count | None = Field(
        description="failures after which every job is still above; null: not asked for, or more than were tried"
    )
