"""Values of the last 24 hours."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from controller.rest.schemas.base import Count, Document

Value = Annotated[float, Field(ge=0)] | None


class SeriesDocument(Document):
    """Equal slots of time, oldest first; null where nothing is known. The last slot goes on."""

    step_seconds: Count = Field(description="length of a slot")
    end: AwareDatetime = Field(description="end of the last slot")
    mean: list[Value] = Field(description="mean of the samples in each slot")
    worst: list[Value] = Field(description="the largest load, or the smallest speed, in each slot")


class HistoryDocument(Document):
    """The load of a directed link (part of its capacity) or the speed of a job, in several resolutions."""

    id: str
    at: AwareDatetime
    series: list[SeriesDocument] = Field(description="finest first; empty: no sample was taken yet")
