"""Flows as messages between hosts, with the paths of a plan if there is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from controller.model.assignment import UNROUTABLE
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import from_validation_error
from controller.model.paces import DEFAULT_MTU, LEAST_MTU, MOST_MTU, NOT_PACED, FlowPace, PacketSize
from controller.model.paths.path_numbers import PathNumbers
from controller.model.priority import CLASSES
from controller.model.tolerances import TOLERANCE
from controller.workload.expand import JobTraffic


class _Piece(BaseModel):
    share: Annotated[float, Field(gt=0, le=1)]
    links: list[str]
    wire_gbps: Annotated[float, Field(gt=0)] | None = None


class _Flow(BaseModel):
    id: str
    src: str
    dst: str
    bytes: int
    paths: list[_Piece]


class _Collective(BaseModel):
    job: str
    name: str
    priority: Annotated[int, Field(ge=0, lt=CLASSES, alias="class")] = 0


class _Plan(BaseModel):
    mtu: Annotated[int, Field(ge=LEAST_MTU, le=MOST_MTU)] | None = None
    collectives: list[_Collective] = []
    flows: list[_Flow]


_FORM = TypeAdapter(_Plan)


@dataclass(frozen=True)
class Message:
    """One piece of a flow, or a whole one.

    Attributes:
        flow: id of the flow, as a plan has it.
        job: number of the job.
        name: the name of the collective.
        src: host index of the sender in the fabric.
        dst: host index of the receiver in the fabric.
        bytes: the bytes of this piece.
        tag: a unique number, from 1.
        udp_src: the source port of the flow, or as in ``Traffic``.
        share: the part of the flow that this is, in (0, 1].
        links: names of the path's links, from the sender to the receiver; empty without a plan.
        pace: the rates that the sender is asked to keep.
        priority: class of its packets in the plan.
    """

    flow: str
    job: int
    phase: int
    name: str
    src: int
    dst: int
    bytes: int
    tag: int
    udp_src: int
    share: float = 1.0
    links: tuple[str, ...] = ()
    pace: FlowPace = NOT_PACED
    priority: int = 0


class PlannedPiece(NamedTuple):
    """A piece of a flow in a plan: its share, the names of its links, its pace, and the class of its packets."""

    share: float
    links: tuple[str, ...]
    pace: FlowPace = NOT_PACED
    priority: int = 0


Routes = Mapping[str, Sequence[PlannedPiece]]
"""The pieces of each flow, by flow id."""


def messages_of(jobs: Sequence[JobTraffic], routes: Routes | None = None) -> Iterator[Message]:
    """Yield a message for each piece of each flow; their bytes add up to the flow's.

    Args:
        jobs: the flows of each job.
        routes: the pieces of all flows; ``None``: each flow is one message without a path.
    """
    tag = 0
    for j, job in enumerate(jobs):
        for flow, collective in enumerate(job.collective.tolist()):
            row, size = job.collectives[collective], int(job.bytes[flow])
            ends = int(job.src[flow]), int(job.dst[flow])
            name = job.flow_id(flow)
            sent, shares = 0, 0.0
            for share, links, pace, priority in routes[name] if routes is not None else (PlannedPiece(1.0, ()),):
                shares += share
                part = min(size, round(shares * size)) - sent
                if part:
                    sent, tag = sent + part, tag + 1
                    port = int(job.udp_src[flow])
                    yield Message(name, j, row.phase, row.name, *ends, part, tag, port, share, links, pace, priority)


def load_routes(path: str | Path, fabric: Fabric, jobs: Sequence[JobTraffic], *, growth: int = 0) -> Routes:
    """Read the paths of a plan of these jobs on this fabric, printed by ``fairspine plan --format json``.

    Args:
        path: the file.
        fabric: the fabric.
        jobs: the flows of each job.
        growth: bytes by which packets grow on their way: paces leave room for them.

    Raises:
        InputError: the file cannot be read or holds no plan; the plan is of other flows, lacks a path, or has
            one that the fabric does not have.
    """
    try:
        plan = _FORM.validate_json(Path(path).read_bytes())
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(path)) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            raise InputError(f"is not JSON: {first['ctx']['error']}", source=str(path)) from None
        raise from_validation_error(error).with_source(str(path)) from None
    planned = {flow.id: flow for flow in plan.flows}
    classes = {(row.job, row.name): row.priority for row in plan.collectives}
    numbers = PathNumbers.of(fabric)
    packets = PacketSize(plan.mtu or DEFAULT_MTU, growth)
    routes = {}
    for job in jobs:
        for flow in range(job.n_flows):
            name, src, dst = job.flow_id(flow), int(job.src[flow]), int(job.dst[flow])
            row = planned.get(name)
            if row is None:
                raise InputError("the plan does not have this flow", source=str(path), field="flows", value=name)
            _check(row, fabric.host_names[src], fabric.host_names[dst], int(job.bytes[flow]), str(path))
            for piece in row.paths:
                between = UNROUTABLE if len(piece.links) == 2 else numbers.number(piece.links)
                if between is None or tuple(piece.links) != _links(fabric, src, dst, between):
                    way = " ".join(piece.links)
                    raise InputError("the fabric has no such path", source=str(path), field=name, value=way)
            priority = classes.get((job.name, job.collectives[int(job.collective[flow])].name), 0)
            routes[name] = [
                PlannedPiece(piece.share, tuple(piece.links), packets.pace(piece.wire_gbps), priority)
                for piece in row.paths
            ]
    return routes


def _links(fabric: Fabric, src: int, dst: int, path: int) -> tuple[str, ...]:
    if (path == UNROUTABLE) != (fabric.host_leaf[src] == fabric.host_leaf[dst]):
        return ()
    return tuple(fabric.link_ids[link] for link in fabric.flow_links(src, dst, path) if link >= 0)


def _check(flow: _Flow, src: str, dst: str, size: int, source: str) -> None:
    shares = sum(piece.share for piece in flow.paths)
    if (flow.src, flow.dst, flow.bytes) != (src, dst, size):
        reason = (
            f"is {flow.bytes} bytes from {flow.src} to {flow.dst} in the plan; the job sends {size} from {src} to {dst}"
        )
    elif not flow.paths:
        reason = "has no live path in this plan"
    elif abs(shares - 1) > TOLERANCE:
        reason = f"has shares that add up to {shares:g}"
    else:
        return
    raise InputError(reason, source=source, field=flow.id)
