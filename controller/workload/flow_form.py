"""Flows of a job document that are given one by one, and the QPs that each of them has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NotRequired

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from controller.model.choices.protocol import ROCE, Protocol
from controller.model.choices.qp_mode import MOST_QPS, QpMode
from controller.model.errors import InputError
from controller.model.job import FlowList
from controller.model.packets.flow_ports import port_code
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from controller.model.queue_pairs import QueuePairs, udp_source_port
from controller.model.texts.byte_sizes import MAX_BYTES, PATTERN, byte_count
from controller.model.texts.text_form import text_form

DEFAULT_COLLECTIVE = "all"
"""The collective of flows and of a matrix that name none."""

NAME = r"[A-Za-z0-9._-]{1,63}"

Name = Annotated[str, text_form(rf"^{NAME}$", "1 to 63 letters, digits, ., _ and -")]
_ByteText = Annotated[str, text_form(PATTERN, "a number of bytes, such as 1GB")]
_Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Bytes = Annotated[_Bytes, BeforeValidator(byte_count, json_schema_input_type=_Bytes | _ByteText)]
UdpPort = Annotated[int, Field(ge=1, le=MAX_PORT)]
Port = Annotated[int, Field(ge=1, le=MAX_PORT)]
Qps = Annotated[int, Field(ge=1, le=MOST_QPS)]
QpNumber = Annotated[int, Field(ge=0, lt=2**24)]

CONFIG = ConfigDict(strict=True, extra="forbid")


@with_config(CONFIG)
class FlowForm(TypedDict):
    """One entry of ``flows``; a typed dictionary, because there may be very many.

    ``udp_src`` is the UDP source port of a connection of one QP, ``qp_ports`` has those of its QPs. ``qp_numbers``
    stands in their place where Linux chooses the ports: the sender's and the receiver's number of each QP.

    ``protocol`` is that of the collective or the job where it is not stated. A flow of TCP may state the port of the
    end that listens, ``dst_port`` or ``src_port``, one of UDP its ``dst_port``.
    """

    src: str
    dst: str
    bytes: Bytes
    collective: NotRequired[Name]
    udp_src: NotRequired[UdpPort]
    qp_ports: NotRequired[list[UdpPort]]
    qp_numbers: NotRequired[list[Annotated[list[QpNumber], Field(min_length=2, max_length=2)]]]
    protocol: NotRequired[Protocol]
    src_port: NotRequired[Port]
    dst_port: NotRequired[Port]


_OF_ROCE = ("udp_src", "qp_ports", "qp_numbers")
_OF_OTHERS = ("src_port", "dst_port")


@dataclass(frozen=True)
class ProtocolsOfFlows:
    """The protocols of flows that state none.

    Attributes:
        of_job: that of the job.
        of_collective: those of collectives that are described, by name; the others have that of the job.
    """

    of_job: Protocol = ROCE
    of_collective: Mapping[str, Protocol] = field(default_factory=dict)

    def of(self, collective: str) -> Protocol:
        """Return the protocol of a collective."""
        return self.of_collective.get(collective, self.of_job)


def queue_pairs(count: int | None, mode: QpMode | None, otherwise: QueuePairs | None, field: str) -> QueuePairs | None:
    """Return the stated QPs; what is not stated is taken from ``otherwise``, which the whole job has.

    Raises:
        InputError: a mode is stated, and no number of QPs.
    """
    if count is None and mode is None:
        return None
    if count is None:
        if otherwise is None:
            raise InputError("there must be 'qps' with it", field=field, value=mode)
        count = otherwise.count
    return QueuePairs(count, mode or (otherwise.mode if otherwise is not None else "split"))


def flow_list(
    rows: Sequence[FlowForm],
    by_collective: Mapping[str, QueuePairs | None],
    otherwise: QueuePairs | None,
    protocols: ProtocolsOfFlows,
    *,
    ports_known: bool,
) -> FlowList:
    """Return the flows of a document.

    Args:
        rows: the entries of ``flows``.
        by_collective: the QPs of collectives that are described; the others have those of the job.
        otherwise: the QPs of the job.
        protocols: those of flows that state none.
        ports_known: whether the job leaves ports to be known.

    Raises:
        InputError: a flow leads to its own sender, ports clash or do not suit its protocol, or there are more or fewer
            than QPs.
    """
    qp_ports: dict[int, tuple[int, ...]] = {}
    codes: dict[int, int] = {}
    listening: dict[tuple[str, str], tuple[int, str]] = {}
    claims: dict[tuple[str, str, int], str] = {}
    for i, row in enumerate(rows):
        if row["src"] == row["dst"]:
            raise InputError("a host cannot send to itself", field=f"flows[{i}].dst", value=row["dst"])
        protocol = row.get("protocol") or protocols.of(row.get("collective", DEFAULT_COLLECTIVE))
        _check_members(i, row, protocol)
        if protocol != ROCE:
            codes[i] = port_code(protocol, row.get("src_port"), row.get("dst_port"))
            _check_listener(i, row, protocol, listening, ports_known=ports_known)
        stated = [name for name in _OF_ROCE if name in row]
        if not stated:
            continue
        if len(stated) > 1:
            raise InputError(f"stands beside '{stated[0]}', which says the same", field=f"flows[{i}].{stated[1]}")
        qps = by_collective.get(row.get("collective", DEFAULT_COLLECTIVE), otherwise)
        field, shown, ports = f"flows[{i}].{stated[0]}", dict(row)[stated[0]], _ports(row)
        if not ports_known:
            raise InputError("the ports of the job are unknown", field=field, value=shown)
        wanted = 1 if qps is None else qps.count
        if len(ports) != wanted:
            given = "this is one port" if stated[0] == "udp_src" else f"there are {len(ports)} of them"
            raise InputError(f"{given}, and 'qps' is {wanted}", field=field, value=shown)
        if "udp_src" not in row:
            qp_ports[i] = ports
        for qp, port in enumerate(ports):
            here = field if "udp_src" in row else f"{field}[{qp}]"
            first = claims.setdefault((row["src"], row["dst"], port), here)
            if first != here:
                raise InputError(
                    f"{first.partition('.')[0]} from {row['src']} to {row['dst']} already has this port",
                    field=here,
                    value=port,
                )
    return FlowList(
        src=tuple(row["src"] for row in rows),
        dst=tuple(row["dst"] for row in rows),
        bytes=np.array([row["bytes"] for row in rows], dtype=np.int64),
        collective=tuple(row.get("collective", DEFAULT_COLLECTIVE) for row in rows),
        udp_src=np.array(
            [0 if i in qp_ports else codes.get(i, row.get("udp_src", 0)) for i, row in enumerate(rows)], dtype=np.int32
        ),
        qp_ports=qp_ports,
    )


def _check_members(i: int, row: FlowForm, protocol: Protocol) -> None:
    """Check that a flow states ports by the members of its protocol.

    Raises:
        InputError: it does not.
    """
    members = dict(row)
    for name in _OF_OTHERS if protocol == ROCE else _OF_ROCE:
        if name in row:
            reason = f"flows of the protocol {protocol} do not state it"
            if protocol == ROCE:
                reason += f": packets go to UDP port {ROCE_PORT}, and 'udp_src' is their source port"
            raise InputError(reason, field=f"flows[{i}].{name}", value=members[name])
    given = [name for name in _OF_OTHERS if name in row]
    if len(given) > 1:
        reason = "stands beside 'dst_port': state the port of the end that listens"
        raise InputError(reason, field=f"flows[{i}].src_port", value=members["src_port"])
    for name in given:
        reason = ""
        if protocol == "any" or (protocol == "udp" and name == "src_port"):
            reason = f"flows of the protocol {protocol} do not state it"
        elif members[name] == ROCE_PORT:
            reason = f"this port is RoCEv2's, and the protocol of the flow is {protocol}"
        if reason:
            raise InputError(reason, field=f"flows[{i}].{name}", value=members[name])


def _check_listener(
    i: int, row: FlowForm, protocol: Protocol, listening: dict[tuple[str, str], tuple[int, str]], *, ports_known: bool
) -> None:
    """Check that one end listens for all TCP connections from one host to another whose ports are stated.

    Otherwise a packet could have the sender's port of one flow and the receiver's port of another.

    Args:
        i: index of the flow.
        row: the flow.
        protocol: its protocol.
        listening: the first flow from one host to another that states a port of TCP, and which; the flow is added.
        ports_known: whether the job leaves ports to be known.

    Raises:
        InputError: it does not, or the ports of the job are unknown.
    """
    name = next((name for name in _OF_OTHERS if name in row), None)
    if name is None:
        return
    here, value = f"flows[{i}].{name}", dict(row)[name]
    if not ports_known:
        raise InputError("the ports of the job are unknown", field=here, value=value)
    if protocol == "tcp":
        first, other = listening.setdefault((row["src"], row["dst"]), (i, name))
        if other != name:
            reason = f"flows[{first}] from {row['src']} to {row['dst']} states '{other}': packets could be of both"
            raise InputError(reason, field=here, value=value)


def _ports(row: FlowForm) -> tuple[int, ...]:
    """Return the port of each QP that a flow states."""
    if "udp_src" in row:
        return (row["udp_src"],)
    if "qp_ports" in row:
        return tuple(row["qp_ports"])
    table = np.array(row["qp_numbers"], dtype=np.int64).reshape(-1, 2)
    return tuple(udp_source_port(table[:, 0], table[:, 1]).tolist())
