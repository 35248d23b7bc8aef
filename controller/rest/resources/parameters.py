"""The parameters of the operations: variables of paths, queries and headers."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from controller.core.ports.api import Under
from controller.model.texts.text_form import text_form
from controller.model.units import LARGEST_EXACT
from controller.rest import schemas
from controller.rest.operation import Parameter
from controller.rest.schemas.base import SHORT_ID


def _decimal(text: str) -> str:
    """Refuse the other spellings of integers that pydantic reads, so that equal paths are equal strings."""
    if not re.fullmatch(r"0|[1-9][0-9]*", text):
        raise ValueError("must be an integer in decimal digits")
    return text


EventId = Annotated[str, text_form(r"^[A-Za-z0-9._-]{1,64}$", SHORT_ID)]
EventCount = Annotated[int, Field(ge=0, le=schemas.MOST_EVENTS), BeforeValidator(_decimal)]
EpochNumber = Annotated[int, Field(ge=0, le=schemas.LARGEST_EPOCH), BeforeValidator(_decimal)]
SampleNumber = Annotated[int, Field(ge=0, le=LARGEST_EXACT), BeforeValidator(_decimal)]
RoundTrip = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
PageSize = Annotated[int, Field(ge=1, le=schemas.MOST_PLANS, default=50), BeforeValidator(_decimal)]


NAME = Parameter("name", "the job's name", schemas.JobName, "gpt3-a", place="path")
LINK = Parameter(
    "id", "id of a cable (leaf1-spine2), a switch, a pod or a plane", schemas.ThingId, "leaf1-spine2", place="path"
)
EPOCH = Parameter("epoch", "the plan's number", EpochNumber, 7, place="path")
HOST = Parameter("host", "name of the sending host", schemas.ThingId, "h1", required=True)
ROUND_TRIP = Parameter(
    "round_trip_us",
    "of a host that cannot pace, with empty queues: then pieces have window_bytes",
    RoundTrip,
    10,
)
BEFORE = Parameter("before", "only plans with a smaller number", EpochNumber, 100)
LIMIT = Parameter("limit", "plans in one answer", PageSize, 20)
UNDER = Parameter("under", "plan (the default), or ecmp: the loads of the same flows under ECMP hashing", Under, "ecmp")
AFTER = Parameter(
    "after", "id of the last event received: continue after it; begin: with the oldest that is kept", EventId, "6a0f-41"
)
DIRECTED = Parameter("id", "id of a directed link", schemas.ThingId, "leaf1->spine2", place="path")
LAST = Parameter("last", "begin with so many earlier events", EventCount, 100)
SINCE = Parameter("since", "version of an earlier list: only links that have changed", EventId, "6a0f-p-41")
JOB = Parameter("job", "only this job's flows", schemas.JobName, "gpt3-a")
COMPARE = Parameter("compare", "a policy to compare with", Annotated[str, text_form("^ecmp$", "ecmp")], "ecmp")
LAST_EVENT_ID = Parameter(
    "Last-Event-ID", "like ?after=, over which it has priority; browsers send it", EventId, "6a0f-41", place="header"
)
