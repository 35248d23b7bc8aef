"""The document of an earlier plan, read as the previous plan of a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from controller.model.choices.protocol import ROCE, Protocol
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import from_validation_error
from controller.model.packets.flow_ports import port_code
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.paths.path_numbers import PathNumbers
from controller.model.priority import CLASSES, JobClass
from controller.model.timing import Schedule
from controller.model.traffic import unit_key
from controller.routing import PreviousPlan


class _Path(BaseModel):
    share: Annotated[float, Field(ge=0, le=1)]
    links: list[str]


class _Flow(BaseModel):
    src: str
    dst: str
    udp_src: Annotated[int, Field(ge=0, le=MAX_PORT)] | None = None
    protocol: Protocol = ROCE
    src_port: Annotated[int, Field(ge=1, le=MAX_PORT)] | None = None
    dst_port: Annotated[int, Field(ge=1, le=MAX_PORT)] | None = None
    paths: list[_Path]

    def code(self) -> int:
        """Return ``udp_src`` as in ``Traffic``."""
        if self.protocol == ROCE:
            return port_code(ROCE, self.udp_src)
        return port_code(self.protocol, self.src_port, self.dst_port)


class _Class(BaseModel):
    job: str
    priority: Annotated[int, Field(ge=0, lt=CLASSES, alias="class")]


class _Plan(BaseModel):
    flows: list[_Flow]
    schedule: Schedule | None = None
    classes: list[_Class] | None = None


_FORM = TypeAdapter(_Plan)


def load_previous(path: str | Path, fabric: Fabric) -> PreviousPlan:
    """Read paths, shifts and classes of a plan printed by ``fairspine plan --format json``, in this fabric's numbers.

    Flows between unknown hosts, or over unknown links, are dropped.

    Raises:
        InputError: the file cannot be read or holds no plan.
    """
    try:
        plan = _FORM.validate_json(Path(path).read_bytes())
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(path)) from None
    except ValidationError as error:
        raise from_validation_error(error).with_source(str(path)) from None
    numbers = PathNumbers.of(fabric)
    host = fabric.host_index
    rows = [
        (host[flow.src], host[flow.dst], flow.code(), number, piece.share)
        for flow in plan.flows
        if flow.src in host and flow.dst in host
        for piece in flow.paths
        if (number := numbers.number(piece.links)) is not None
    ]
    src, dst, port, path_class, share = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    key = unit_key(src.astype(np.int64), dst.astype(np.int64), port.astype(np.int64))
    order = np.argsort(key, kind="stable")
    return PreviousPlan(
        fabric.host_names,
        fabric.path_names,
        key[order],
        path_class[order].astype(np.int32),
        share[order],
        plan.schedule,
        tuple(JobClass(row.job, row.priority) for row in plan.classes or ()),
    )
