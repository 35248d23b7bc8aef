"""Flows of a job document that are given one by one, and the QPs that each of them has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from controller.model.byte_sizes import MAX_BYTES, PATTERN, byte_count
from controller.model.choices.qp_mode import MOST_QPS, QpMode
from controller.model.errors import InputError
from controller.model.job import FlowList
from controller.model.port_numbers import MAX_PORT
from controller.model.queue_pairs import QueuePairs, udp_source_port
from controller.model.text_form import text_form
from controller.model.traffic import Int64Array

DEFAULT_COLLECTIVE = "all"
"""The collective of flows and of a matrix that name none."""

NAME = r"[A-Za-z0-9._-]{1,63}"

Name = Annotated[str, text_form(rf"^{NAME}$", "1 to 63 letters, digits, ., _ and -")]
_ByteText = Annotated[str, text_form(PATTERN, "a number of bytes, such as 1GB")]
_Bytes = Annotated[float, Field(ge=0, le=MAX_BYTES, allow_inf_nan=False)]
Bytes = Annotated[_Bytes, BeforeValidator(byte_count, json_schema_input_type=_Bytes | _ByteText)]
WholeBytes = Annotated[
    Annotated[int, Field(ge=0, le=MAX_BYTES)],
    BeforeValidator(byte_count, json_schema_input_type=Annotated[int, Field(ge=0, le=MAX_BYTES)] | _ByteText),
]
UdpPort = Annotated[int, Field(ge=1, le=MAX_PORT)]
Qps = Annotated[int, Field(ge=1, le=MOST_QPS)]
QpNumber = Annotated[int, Field(ge=0, lt=2**24)]

CONFIG = ConfigDict(strict=True, extra="forbid")


@with_config(CONFIG)
class FlowForm(TypedDict):
    """One entry of ``flows``; a typed dictionary, because there may be very many.

    ``udp_src`` is the UDP source port of a connection of one QP, ``qp_ports`` has those of its QPs. ``qp_numbers``
    stands in their place where Linux chooses the ports: the sender's and the receiver's number of each QP.
    """

    src: str
    dst: str
    bytes: Bytes
    collective: NotRequired[Name]
    udp_src: NotRequired[UdpPort]
    qp_ports: NotRequired[list[UdpPort]]
    qp_numbers: NotRequired[list[Annotated[list[QpNumber], Field(min_length=2, max_length=2)]]]


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
    *,
    ports_known: bool,
) -> FlowList:
    """Return the flows of a document.

    Args:
        rows: the entries of ``flows``.
        by_collective: the QPs of collectives that are described; the others have those of the job.
        otherwise: the QPs of the job.
        ports_known: whether the job leaves ports to be known.

    Raises:
        InputError: a flow leads to its own sender, ports clash, or there are more or fewer than QPs.
    """
    qp_ports: dict[int, tuple[int, ...]] = {}
    claims: dict[tuple[str, str, int], str] = {}
    for i, row in enumerate(rows):
        if row["src"] == row["dst"]:
            raise InputError("a host cannot send to itself", field=f"flows[{i}].dst", value=row["dst"])
        stated = [name for name in ("udp_src", "qp_ports", "qp_numbers") if name in row]
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
        bytes=whole([row["bytes"] for row in rows]),
        collective=tuple(row.get("collective", DEFAULT_COLLECTIVE) for row in rows),
        udp_src=np.array([0 if i in qp_ports else row.get("udp_src", 0) for i, row in enumerate(rows)], dtype=np.int32),
        qp_ports=qp_ports,
    )


def _ports(row: FlowForm) -> tuple[int, ...]:
    """Return the port of each QP that a flow states."""
    if "udp_src" in row:
        return (row["udp_src"],)
    if "qp_ports" in row:
        return tuple(row["qp_ports"])
    table = np.array(row["qp_numbers"], dtype=np.int64).reshape(-1, 2)
    return tuple(udp_source_port(table[:, 0], table[:, 1]).tolist())


def whole(size: Any) -> Int64Array:
    """Return numbers of bytes, rounded up to whole ones."""
    rounded: Int64Array = np.ceil(np.array(size, dtype=np.float64)).astype(np.int64)
    return rounded
