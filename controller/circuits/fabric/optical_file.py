"""Files of optical fabrics: YAML or JSON with the key ``optical``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.model.errors import InputError
from controller.model.fabric import IntArray
from controller.model.files.fabric_file import from_validation_error, read_document
from controller.model.files.fabric_forms import Gbps, Name, Port

MAX_SERVERS = 4096
MAX_NICS = 64
_MOST_SECONDS = 86_400.0


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OpticalPortRow(_Form):
    """A port of an optical switch, and the NIC at it (0 is a server's first one)."""

    port: Port
    server: Name
    nic: Annotated[int, Field(ge=0, lt=MAX_NICS)]


class OpticalSwitchRow(_Form):
    """An optical switch of the explicit form."""

    name: Name
    dpid: Annotated[int, Field(ge=1, lt=2**64)] | None = None
    ports: list[OpticalPortRow]


class PortPlace(_Form):
    """A port by its switch and number."""

    switch: Name
    port: Port


class CircuitRow(_Form):
    """A present circuit, from one port of a switch to another one."""

    switch: Name
    in_port: Port
    out_port: Port


def _kind(value: Any) -> Any:
    """Name both spellings, where pydantic would name each member of the union."""
    if isinstance(value, list) or value in ("per_nic", "one"):
        return value
    raise ValueError("must be per_nic, one, or a list of switches with their ports")


def _servers(value: Any) -> Any:
    if isinstance(value, list) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise ValueError("must be a number of servers, or a list of their names")


class OpticalForm(_Form):
    """The content of ``optical``."""

    servers: Annotated[Annotated[int, Field(ge=2, le=MAX_SERVERS)] | list[Name], BeforeValidator(_servers)]
    nics: Annotated[int, Field(ge=1, le=MAX_NICS)]
    gbps: Gbps = 100.0
    switches: Annotated[Literal["per_nic", "one"] | list[OpticalSwitchRow], BeforeValidator(_kind)] = "per_nic"
    duplex: Annotated[bool, Field(strict=True)] = False
    reconfigure_seconds: Annotated[float, Field(ge=0, le=_MOST_SECONDS, allow_inf_nan=False)] = 120.0
    forwarding: Annotated[bool, Field(strict=True)] = True
    circuits: list[CircuitRow] = []
    dead_ports: list[PortPlace] = []


_PACKET_FORMS = frozenset({"clos", "three_tier", "switches"})
"""Forms of fabrics of packet switches, of which a file of circuits has none."""


class OpticalFile(_Form):
    """The whole file."""

    optical: OpticalForm


def load_optical_fabric(path: str | Path) -> OpticalFabric:
    """Read the file of an optical fabric.

    Raises:
        InputError: the file cannot be read or is invalid; one line that names file, field and value.
    """
    return parse_optical_fabric(read_document(path), source=str(path))


def parse_optical_fabric(document: Any, *, source: str = "") -> OpticalFabric:
    """Parse an optical fabric from plain data.

    Raises:
        InputError: the first error in it.
    """
    try:
        if not isinstance(document, dict) or "optical" not in document:
            raise InputError("has no 'optical': circuits are planned on optical switches or patch panels only")
        for other in sorted(_PACKET_FORMS & document.keys()):
            reason = "packet switches beside circuits (hybrid fabrics) are not supported"
            raise InputError(reason, field=other)
        try:
            form = OpticalFile.model_validate(document).optical
        except ValidationError as error:
            raise from_validation_error(error, document) from None
        return _build(form)
    except InputError as error:
        raise error.with_source(source) from None


def _build(form: OpticalForm) -> OpticalFabric:
    names = [f"h{i + 1}" for i in range(form.servers)] if isinstance(form.servers, int) else list(form.servers)
    if len(names) < 2:
        raise InputError("there must be two servers or more", field="optical.servers", value=names)
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError("a server before has this name", field=f"optical.servers[{i}]", value=name)
    if form.nics >= len(names):
        raise InputError(
            f"{len(names)} servers need no more than {len(names) - 1} NICs each", field="optical.nics", value=form.nics
        )
    switch_names, switch_of, ports = _cabling(form, names)
    if form.duplex and len(switch_names) > 1 and len(names) % 2:
        raise InputError(
            "an odd number of servers cannot be paired: duplex circuits on a switch for each NIC need an even one",
            field="optical.servers",
            value=len(names),
        )
    if form.duplex and form.nics % 2 and len(names) % 2:
        raise InputError(
            "an odd number of servers with an odd number of NICs cannot all be paired by duplex circuits",
            field="optical.servers",
            value=len(names),
        )
    fabric = OpticalFabric(
        tuple(names),
        form.nics,
        float(form.gbps),
        switch_names,
        switch_of,
        ports,
        form.duplex,
        float(form.reconfigure_seconds),
        form.forwarding,
        np.zeros((len(names), form.nics), dtype=np.bool_),
        dpids=_dpids(form, len(switch_names)),
    )
    dead = fabric.dead.copy()
    for i, place in enumerate(form.dead_ports):
        dead[_nic(fabric, place.switch, place.port, f"optical.dead_ports[{i}]", "port")] = True
    circuits = _circuits(fabric, form.circuits, dead)
    return OpticalFabric(
        **{**{name: getattr(fabric, name) for name in OpticalFabric.__dataclass_fields__}, "dead": dead}
        | {"circuits": circuits}
    )


def _cabling(form: OpticalForm, names: list[str]) -> tuple[tuple[str, ...], IntArray, IntArray]:
    """Return the switches, the switch of each NIC number, and the port of each NIC."""
    n, d = len(names), form.nics
    server, nic = np.arange(n, dtype=np.int32)[:, None], np.arange(d, dtype=np.int32)[None, :]
    if form.switches == "per_nic":
        return tuple(f"ocs{k + 1}" for k in range(d)), nic[0].copy(), np.repeat(server + 1, d, axis=1)
    if form.switches == "one":
        return ("ocs1",), np.zeros(d, dtype=np.int32), server + 1 + nic * np.int32(n)
    assert not isinstance(form.switches, str)
    return _explicit_cabling(form.switches, names, d)


def _dpids(form: OpticalForm, count: int) -> tuple[int, ...]:
    """Return the datapath ids: the number of the switch, from 1, where the file has none."""
    dpids: list[int] = []
    for s in range(count):
        given = None if isinstance(form.switches, str) else form.switches[s].dpid
        dpid = s + 1 if given is None else given
        if dpid in dpids:
            field = f"optical.switches[{s}].dpid"
            raise InputError("a switch before has this datapath id", field=field, value=dpid)
        dpids.append(dpid)
    return tuple(dpids)


def _explicit_cabling(
    switches: list[OpticalSwitchRow], names: list[str], d: int
) -> tuple[tuple[str, ...], IntArray, IntArray]:
    index = {name: i for i, name in enumerate(names)}
    switch_of, ports = np.full(d, -1, dtype=np.int32), np.zeros((len(names), d), dtype=np.int32)
    for s, switch in enumerate(switches):
        if switch.name in [each.name for each in switches[:s]]:
            raise InputError("a switch before has this name", field=f"optical.switches[{s}].name", value=switch.name)
        used: set[int] = set()
        for i, row in enumerate(switch.ports):
            field = f"optical.switches[{s}].ports[{i}]"
            if row.server not in index:
                raise InputError("no server has this name", field=f"{field}.server", value=row.server)
            if row.nic >= d:
                raise InputError(f"servers have NICs 0 to {d - 1}", field=f"{field}.nic", value=row.nic)
            if row.port in used:
                raise InputError("a port before has this number", field=f"{field}.port", value=row.port)
            used.add(row.port)
            if ports[index[row.server], row.nic]:
                raise InputError(
                    f"NIC {row.nic} of {row.server} is already at a port", field=f"{field}.nic", value=row.nic
                )
            if switch_of[row.nic] not in (-1, s):
                other = switches[switch_of[row.nic]].name
                raise InputError(
                    f"NIC {row.nic} of other servers is on {other}, so this one must be there, too",
                    field=f"{field}.server",
                    value=row.server,
                )
            switch_of[row.nic], ports[index[row.server], row.nic] = s, row.port
    lacking = np.argwhere(ports == 0)
    if len(lacking):
        server, nic = lacking[0].tolist()
        raise InputError(f"NIC {nic} of {names[server]} is at no port", field="optical.switches")
    return tuple(switch.name for switch in switches), switch_of, ports


def _nic(fabric: OpticalFabric, switch: str, port: int, field: str, name: str) -> tuple[int, int]:
    """Return the (server, NIC) at a port.

    Raises:
        InputError: there is no such switch, or no server is at this port.
    """
    if switch not in fabric.switch_names:
        raise InputError("no optical switch has this name", field=f"{field}.switch", value=switch)
    place = fabric.nic_at.get((fabric.switch_names.index(switch), port))
    if place is None:
        raise InputError(f"no server is at this port of {switch}", field=f"{field}.{name}", value=port)
    return place


def _circuits(fabric: OpticalFabric, rows: list[CircuitRow], dead: np.ndarray) -> tuple[Circuit, ...]:
    inputs: dict[tuple[str, int], int] = {}
    outputs: dict[tuple[str, int], int] = {}
    for i, row in enumerate(rows):
        field = f"optical.circuits[{i}]"
        for name, port, used in (("in_port", row.in_port, inputs), ("out_port", row.out_port, outputs)):
            place = _nic(fabric, row.switch, port, field, name)
            if dead[place]:
                raise InputError("is one of dead_ports", field=f"{field}.{name}", value=port)
            if (row.switch, port) in used:
                other = used[row.switch, port]
                raise InputError(f"circuits[{other}] already uses this port", field=f"{field}.{name}", value=port)
            used[row.switch, port] = i
        ends = [fabric.nic_at[fabric.switch_names.index(row.switch), port] for port in (row.in_port, row.out_port)]
        if ends[0][0] == ends[1][0]:
            raise InputError(
                f"both ends are of {fabric.servers[ends[0][0]]}", field=f"{field}.out_port", value=row.out_port
            )
    circuits = tuple(Circuit(row.switch, row.in_port, row.out_port) for row in rows)
    for i, each in enumerate(circuits if fabric.duplex else ()):
        if Circuit(each.switch, each.out_port, each.in_port) not in circuits:
            raise InputError(
                "circuits are duplex, and the other direction of this one is missing",
                field=f"optical.circuits[{i}].in_port",
                value=each.in_port,
            )
    return circuits
