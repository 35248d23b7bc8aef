"""The controller itself: mode, events, health."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    TypeAdapter,
    WithJsonSchema,
    field_validator,
)

from controller.core.caller import Role
from controller.core.events import EventKind
from controller.model.enforcement import Enforcement, Mode
from controller.rest.schemas.base import Count, Document, Epoch, Form


class ModeForm(Form):
    """How plans should be enforced: one of the two, or both; what is left out stays as it is."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    mode: Annotated[Mode | None, WithJsonSchema(TypeAdapter(Mode).json_schema())] = None
    enforcement: Annotated[Enforcement | None, WithJsonSchema(TypeAdapter(Enforcement).json_schema())] = None

    @field_validator("mode", "enforcement", mode="before")
    @classmethod
    def _said(cls, value: object) -> object:
        if value is None:
            raise ValueError("leave it out where it should stay as it is")
        return value


class ModeDocument(Document):
    """The operating mode.

    ``planned``: the newest plan is on the switches. ``ecmp``: none is, all traffic is hashed. ``frozen``: the switches
    keep what they hold; changes are taken, kept, and come into force with the return to ``planned``.

    ``enforcement``: the kind of rules by which switches follow plans, once the mode is ``planned``.
    """

    mode: Mode
    enforcement: Enforcement
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


class WhoAmI(Document):
    """Who asks, and what they may do. ``secured``: whether tokens are needed; where not, everybody may write."""

    name: str = Field(description="the token's; anonymous where none is needed")
    role: Role
    secured: bool


class SwitchCount(Document):
    """``expected`` is null where no fabric file says how many there should be."""

    connected: Count
    expected: Count | None


Status = Literal["ok", "starting", "degraded"]


class Health(Document):
    """Whether the controller does its work; ``reasons`` says in words why not.

    ``degraded_service`` says why jobs are slower than with all links in use, or may be: the mode, failed and drained
    cables. These are no faults of the controller and do not change ``status``.

    The answer's status is 200 in all three states, because the controller itself is alive: a watchdog that restarts
    it would not bring a switch back.
    """

    status: Status
    reasons: list[str]
    degraded_service: list[str]
    version: str
    mode: Mode
    enforcement: Enforcement
    switches: SwitchCount
    jobs: Count
    flows: Count


class Liveness(Document):
    """What a caller without a token is told of the controller's health, where tokens are required."""

    status: Status


class HealthAnswer(RootModel[Health | Liveness]):
    """In full for whoever may read."""


class Metrics(RootModel[str]):
    """Metrics in Prometheus's text format, or in OpenMetrics."""


class OpenApi(RootModel[dict[str, Any]]):
    """An OpenAPI 3.1 document."""
