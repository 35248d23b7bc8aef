"""The controller itself: mode, events, health."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    WithJsonSchema,
    field_validator,
)

from controller.core.caller import Role
from controller.core.events import EventKind
from controller.model.choices.enforcement import Mode
from controller.model.texts.text_form import text_form
from controller.rest.schemas.base import SHORT_ID, Count, Document, EnforcementName, Epoch, Form, Speed


class ModeForm(Form):
    """The mode, the enforcement, or both; a field that is left out does not change."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    mode: Annotated[Mode | None, WithJsonSchema(TypeAdapter(Mode).json_schema())] = None
    enforcement: Annotated[EnforcementName | None, WithJsonSchema(TypeAdapter(EnforcementName).json_schema())] = None

    @field_validator("mode", "enforcement", mode="before")
    @classmethod
    def _said(cls, value: object) -> object:
        if value is None:
            raise ValueError("leave the field out if it should not change")
        return value


class ModeDocument(Document):
    """The operating mode.

    ``planned``: switches enforce the newest plan. ``ecmp``: no plan is enforced, all traffic is hashed. ``frozen``: the
    rules on the switches do not change; changes are accepted and stored, and take effect when the mode is ``planned``
    again. ``enforcement``: the kind of rules by which switches follow plans in mode ``planned``.
    """

    mode: Mode
    enforcement: EnforcementName
    since: AwareDatetime | None = Field(description="null: since the store was created")
    by: str | None
    epoch: Epoch = Field(description="the first plan that includes the change")


class EventDocument(Document):
    """The ``data`` of a server-sent event.

    ``reset`` means that the client has missed events and should read the full state again.
    """

    id: Annotated[str, text_form(r"^[A-Za-z0-9._-]{1,64}$", SHORT_ID)]
    at: AwareDatetime
    kind: EventKind
    data: dict[str, Any]


class WhoAmI(Document):
    """The caller and its role. ``secured``: whether tokens are required; without tokens every caller may write."""

    name: str = Field(description="name of the token; anonymous if no token is required")
    role: Role
    secured: bool
    most_jobs: Count | None = Field(
        None, description="jobs that the token may have stored; missing: no limit of its own"
    )
    most_changes: Count | None = Field(
        None, description="changes that the token may request in a minute; missing: no limit of its own"
    )
    tenant: str | None = Field(
        None, description="whose jobs alone the token may change; missing: the token of no tenant"
    )


class SwitchCount(Document):
    """Number of connected switches, and of those in the fabric file; ``expected`` is null without a file."""

    connected: Count
    expected: Count | None


Status = Literal["ok", "starting", "degraded"]


class AgentCount(Document):
    """Agents of hosts that the newest plan needs, those that are heard, and those that have confirmed it."""

    expected: Count
    heard: Count
    confirmed: Count


class ClusterReplica(Document):
    """A replica of a cluster. ``live``: the store has heard of it lately; ``this``: it has made this document."""

    url: str
    version: str
    live: bool
    leads: bool
    this: bool
    heard: AwareDatetime = Field(description="by the clock of the store")
    switches: Count = Field(description="connected to this replica when it was heard")


class ClusterDocument(Document):
    """The cluster of a controller, as the store described it to this replica a moment ago.

    ``leader`` is the URL of the replica that was elected last, which may have ended since; ``since``: by the clock of
    the store. ``term`` grows with every election.
    """

    name: str | None
    role: Literal["single", "leader", "follower"]
    term: Count
    leader: str | None
    since: AwareDatetime | None
    change: Annotated[str | None, Field(description="number of the store's last change, TERM-NUMBER")]
    replicas: list[ClusterReplica]


class SlowestJob(Document):
    """The slowest job now, by the rules that switches hold.

    ``job`` and ``speed`` are null if this is not known (``unknown`` says why) or no job uses the network.
    """

    job: str | None
    speed: Speed | None = Field(description="0: some flow of the job cannot arrive")
    unknown: str | None


class Health(Document):
    """The health of controller and network; ``reasons`` describes each problem.

    ``degraded_service`` says why jobs are slower than with all links in use, or may be: the mode, failed and drained
    cables. These are no faults of the controller and do not change ``status``.

    The HTTP status is 200 in all three states, because the controller is running: a watchdog that restarted
    it would not repair a switch.
    """

    status: Status
    reasons: list[str]
    degraded_service: list[str]
    slowest_job: SlowestJob
    active_epoch: Epoch | None = Field(
        description="the newest plan whose rules every connected switch has confirmed; null: there is none"
    )
    version: str
    mode: Mode
    enforcement: EnforcementName | Literal["circuits"]
    switches: SwitchCount
    agents: AgentCount | None = Field(description="where hosts carry out plans; null: switches do")
    jobs: Count
    flows: Count
    cluster: Annotated[ClusterDocument | None, Field(description="missing for a controller in no cluster")] = None


class Liveness(Document):
    """The health document for callers without a token, if tokens are required."""

    status: Status


class HealthAnswer(RootModel[Health | Liveness]):
    """The full health document for callers that may read, else only the status."""


class Metrics(RootModel[str]):
    """Metrics in Prometheus's text format, or in OpenMetrics."""


class OpenApi(RootModel[dict[str, Any]]):
    """An OpenAPI 3.1 document."""
