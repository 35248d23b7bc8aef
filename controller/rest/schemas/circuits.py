"""Circuits of an optical fabric, and what servers forward by."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controller.rest.schemas.base import Bytes, Count, Document, Epoch, Seconds

Nic = Annotated[int, Field(ge=0, description="number of a server's NIC, from 0")]
PortNumber = Annotated[int, Field(ge=1)]
Ratio = Annotated[float, Field(ge=0)]


class CircuitStageDocument(Document):
    """A stage of a change of circuits, and what is being done in it."""

    number: Annotated[int, Field(ge=1)]
    of: Annotated[int, Field(ge=1)]
    doing: str


class PanelDocument(Document):
    """An optical switch or patch panel. ``confirmed``: it holds the newest circuits."""

    name: str
    dpid: Annotated[int, Field(ge=1)]
    connected: bool
    confirmed: bool
    error: str | None
    circuits: Count = Field(description="that it should hold")


class CircuitShardDocument(Document):
    """Jobs that share servers, and the time of an iteration's bytes on their circuits."""

    jobs: list[str]
    servers: list[str]
    seconds: Seconds = Field(description="as planned")
    seconds_now: Seconds | None = Field(description="by the circuits of now; null: servers do not all reach each other")
    ideal_seconds: Seconds = Field(description="on one switch without bottlenecks")
    bound_seconds: Seconds = Field(description="no circuits and no routes need less")
    over_ideal: Ratio | None = Field(description="seconds over ideal_seconds; null where nothing is sent")
    over_bound: Ratio | None = Field(description="seconds over bound_seconds; null where nothing is sent")
    tax: Ratio | None = Field(description="bytes on all circuits over bytes sent; null where nothing is sent")


class CircuitDocument(Document):
    """A circuit of the plan, and its bytes in an iteration of the jobs.

    ``lit``: its panel was given it, its ports are up, and discovery packets cross it. ``failed``: they do not
    (``reason``). ``dark``: it is not set.
    """

    switch: str
    in_port: PortNumber
    out_port: PortNumber
    from_: str = Field(alias="from")
    from_nic: Nic
    to: str
    to_nic: Nic
    state: Literal["lit", "failed", "dark"]
    reason: str | None
    bytes: Bytes


class CircuitServerDocument(Document):
    """A server and its agent. ``needed``: it takes part in a job. ``confirmed``: it holds the newest table."""

    server: str
    needed: bool
    heard_seconds: Seconds | None = Field(description="since its agent asked last; null: never since the start")
    confirmed: bool


class CircuitsDocument(Document):
    """The circuits of an optical fabric. ``epoch``: of the rules that panels were given last."""

    epoch: Epoch
    stage: CircuitStageDocument | None = Field(description="null: no change is under way")
    trouble: str | None = Field(description="why there is no plan of the newest jobs")
    lossy: str | None = Field(description="why the last change was made at once, in which packets are lost")
    panels: list[PanelDocument]
    shards: list[CircuitShardDocument]
    circuits: list[CircuitDocument]
    servers: list[CircuitServerDocument]


class CircuitNeighbour(Document):
    """The Ethernet address of the NIC to which a circuit leads from a NIC of the server."""

    address: str
    mac: str
    nic: Nic


class CircuitRoute(Document):
    """By which NIC packets leave; ``via``: the address of a neighbour, null: ``to`` is one."""

    to: str
    via: str | None
    nic: Nic


class ServerTableDocument(Document):
    """All that a server forwards by. ``step`` names the table; a request that names it confirms it.

    ``address`` is in 10.x.y.0/24, which are all the server's own. ``macs``: of its NICs, in order.
    """

    host: str
    step: str
    address: str
    macs: list[str]
    neighbours: list[CircuitNeighbour]
    routes: list[CircuitRoute]
