"""The controller itself: mode, events, health."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, RootModel, StringConstraints

from controller.rest.backend import EventKind, Mode
from controller.rest.schemas.base import Count, Document, Epoch, Form


class ModeForm(Form):
    """How plans should be enforced."""

    mode: Mode


class ModeDocument(Document):
    """``planned``: the newest plan is on the switches. ``ecmp``: none is, all traffic is hashed. ``frozen``: the
    switches keep what they hold; changes are taken, kept, and come into force with the return to ``planned``."""

    mode: Mode
    since: AwareDatetime | None = Field(description="null: ever since the controller was installed")
    by: str | None
    epoch: Epoch = Field(description="the plan that takes account of it")


class EventDocument(Document):
    """The ``data`` of a server-sent event.

    ``reset`` says that events are lost to this reader, who had better read everything anew.
    """

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    at: AwareDatetime
    kind: EventKind
    data: dict[str, Any]


class SwitchCount(Document):
    """``expected`` is null where no fabric file says how many there should be."""

    connected: Count
    expected: Count | None


Status = Literal["ok", "starting", "degraded"]


class Health(Document):
    """Whether the controller does its work; ``reasons`` says in words why not.

    The answer's status is 200 in all three states, because the controller itself is alive: a watchdog that restarts
    it would not bring a switch back.
    """

    status: Status
    reasons: list[str]
    version: str
    mode: Mode
    switches: SwitchCount
    jobs: Count
    flows: Count


class Liveness(Document):
    """What a caller without a token is told of the controller's health, where tokens are required."""

    status: Status


class HealthAnswer(RootModel[Health | Liveness]):
    """In full for whoever may read."""


class OpenApi(RootModel[dict[str, Any]]):
    """An OpenAPI 3.1 document."""
