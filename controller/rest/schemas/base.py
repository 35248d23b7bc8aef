"""The common parts of the document models: units, names, and validation rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from controller.model.choices.protocol import ROCE, Protocol
from controller.model.paces import LEAST_MTU, MOST_MTU
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.priority import CLASSES, DSCP
from controller.model.texts.text_form import text_form
from controller.model.units import LARGEST_EXACT
from controller.southbound.enforcement.registry import ENFORCEMENTS

_LETTER, _DOTLESS = "[A-Za-z0-9._-]", "[A-Za-z0-9_-]"
JOB_NAME = rf"(?:{_DOTLESS}|{_DOTLESS}{_LETTER}|\.{_DOTLESS}|{_LETTER}{{3,63}})"
"""1 to 63 letters, digits, ``.``, ``_`` and ``-``; not ``.`` or ``..`` (RFC 3986, section 5.2.4)."""
LARGEST_EPOCH = LARGEST_EXACT
MOST_EVENTS = 2000
"""Earlier events that a stream can begin with."""
MOST_PLANS = 500
"""Plans in one page of the history."""

if TYPE_CHECKING:
    EnforcementName = str
else:
    EnforcementName = Literal[tuple(ENFORCEMENTS)]
"""The enforcements, those of plug-ins included, which are not known to a type checker."""

Epoch = Annotated[int, Field(ge=0, le=LARGEST_EPOCH)]
Count = Annotated[int, Field(ge=0)]
SHORT_ID = "1 to 64 letters, digits, ., _ and -"
JobName = Annotated[str, text_form(rf"^{JOB_NAME}$", "1 to 63 letters, digits, ., _ and -; not . or ..")]
ThingId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Revision = Annotated[
    str, text_form(r"^[A-Za-z0-9._-]{1,64}$", SHORT_ID), Field(description="the job's ETag, without its quotes")
]
Bytes = Annotated[int, Field(ge=0)]
Gbps = Annotated[float, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
PACE_TEXT = "payload rate that the sender should keep; null: it need not be paced (docs/explanation/objective.md)"
WIRE_TEXT = "the same on the links, with the headers of full packets"
Mtu = Annotated[int, Field(ge=LEAST_MTU, le=MOST_MTU)]
PlaneNumber = Annotated[int, Field(ge=1, description="number of a plane, where NICs have several ports")]
Share = Annotated[float, Field(gt=0, le=1)]
Speed = Annotated[float, Field(ge=0, description="ideal time alone divided by the time under the plan")]
UdpPort = Annotated[int, Field(ge=1, le=MAX_PORT)]
QpNumber = Annotated[int, Field(ge=0, lt=2**24)]
PriorityClass = Annotated[int, Field(ge=1, lt=CLASSES)]
AnyClass = Annotated[int, Field(ge=0, lt=CLASSES)]
AnyDscp = Annotated[int, Field(ge=0, lt=64)]
PriorityDscp = Annotated[int, Field(ge=min(DSCP), le=max(DSCP))]
CLASS = Field(None, alias="class", description="class of priority of its packets; missing for class 0, the lowest one")


class Document(BaseModel):
    """Base class of the documents in responses.

    Validators are made at the first use: the controller itself only describes these documents (``/openapi.json``).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class FlowProtocol(Document):
    """What packets of a flow have beside addresses, where its protocol is not RoCEv2."""

    protocol: Protocol = Field(ROCE, description="any: all packets between the two hosts that no other flow has")
    src_port: UdpPort | None = Field(None, description="port of the sender; null: it is not known, or is udp_src")
    dst_port: UdpPort | None = Field(None, description="port of the receiver; null: it is not known, or is RoCEv2's")


class Form(BaseModel):
    """Base class of the documents in requests: unknown members and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class EmptyForm(Form):
    """An empty object: the path says everything."""


class Problem(BaseModel):
    """Problem details (RFC 9457). Further members depend on the type."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    instance: str | None = None
    field: str | None = Field(None, description="the invalid field, parameter or path variable")
    value: Any = Field(None, description="its value as sent, shortened")
    error_id: str | None = Field(None, description="id of the error in the controller's log")
