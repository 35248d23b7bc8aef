"""Parsing of the bodies of previews, of analyses of failures, and of sightings into the core's requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address
from typing import Any

import numpy as np

from controller.core.ports.api import BodyReaders
from controller.core.ports.host_agents import (
    Bypass,
    ConnectedQp,
    DeadPath,
    FlowPacing,
    FlowPort,
    HostReport,
    NicCounters,
    PlanId,
    PortlessPaths,
    PortReport,
    RoundTrips,
    SentFlow,
    StrangeAnswers,
)
from controller.core.requests.preview_request import PreviewRequest
from controller.core.requests.sighting_request import SightingRequest
from controller.core.requests.survival_request import SurvivalRequest
from controller.model.choices.protocol import ROCE
from controller.model.errors import InputError
from controller.model.packets.flow_ports import ALL_TCP
from controller.model.traffic import ANY_PORT
from controller.rest.forms import read_form
from controller.rest.schemas import (
    HostReportForm,
    NicCountersForm,
    PortReportForm,
    PreviewForm,
    SightingQp,
    SightingsForm,
    SurvivalForm,
)


def read_preview(body: bytes) -> PreviewRequest:
    """Return the change that a body asks to try.

    Raises:
        InputError: with an empty ``field``, the body is no JSON object; else that field is wrong.
    """
    form = read_form(body, PreviewForm)
    put = [document.get("name") for document in form.put]
    _check_once("delete", form.delete, {name: "is put, too" for name in put if isinstance(name, str)})
    _check_once("undrain", form.undrain, dict.fromkeys(form.drain, "is drained, too"))
    return PreviewRequest(
        put=tuple(form.put),
        delete=tuple(form.delete),
        drain=tuple(form.drain),
        undrain=tuple(form.undrain),
        policy=form.policy,
        seed=form.seed,
        mode=form.mode,
        enforcement=form.enforcement,
    )


def _check_once(field: str, names: Sequence[str], others: Mapping[str, str]) -> None:
    """Refuse a name that is listed twice, or for which another list asks the contrary; ``others`` say how."""
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen or name in others:
            raise InputError("is listed twice" if name in seen else others[name], field=f"{field}[{i}]", value=name)
        seen.add(name)


def read_survival(body: bytes) -> SurvivalRequest:
    """Return the failures that a body asks to analyse.

    Raises:
        InputError: with an empty ``field``, the body is no JSON object; else that field is wrong.
    """
    form = read_form(body, SurvivalForm)
    return SurvivalRequest(kinds=tuple(form.kinds), pairs=form.pairs, above=form.above)


def read_sightings(body: bytes) -> SightingRequest:
    """Return the sightings of a body.

    Raises:
        InputError: with an empty ``field``, the body is no JSON object; else that field is wrong.
    """
    form = read_form(body, SightingsForm)
    for field, column in (("at", form.at), ("bytes", form.bytes)):
        if len(column) != len(form.qp):
            raise InputError(f"must have as many members as qp ({len(form.qp)})", field=field, value=len(column))
    # Before numpy, whose integers are not as large as those of JSON.
    wrong = next((place for place, index in enumerate(form.qp) if index >= len(form.qps)), None)
    if wrong is not None:
        raise InputError(f"qps has only {len(form.qps)} members", field=f"qp[{wrong}]", value=form.qp[wrong])
    return SightingRequest(
        tuple((row.src, row.dst, _port(i, row), row.dst_qp) for i, row in enumerate(form.qps)),
        np.array(form.qp, dtype=np.int32),
        np.array(form.at, dtype=np.float64),
        np.array(form.bytes, dtype=np.int64),
        {i: row.open for i, row in enumerate(form.qps) if row.open is not None},
    )


def _port(i: int, row: SightingQp) -> int:
    if row.protocol == ROCE:
        if row.open is not None:
            raise InputError("only TCP connections are open", field=f"qps[{i}].open", value=row.open)
        return row.udp_src or ANY_PORT
    for member in ("udp_src", "dst_qp"):
        if getattr(row, member):
            raise InputError("TCP connections have none", field=f"qps[{i}].{member}", value=getattr(row, member))
    return ALL_TCP


def read_host_report(body: bytes) -> HostReport:
    """Return the report of an agent.

    Raises:
        InputError: with an empty ``field``, the body is no JSON object; else that field is wrong.
    """
    form = read_form(body, HostReportForm)
    if form.epoch is not None and form.digest is None:
        raise InputError("is needed with an epoch", field="digest")
    plan = None if form.epoch is None or form.digest is None else PlanId(form.epoch, form.digest)
    return HostReport(
        plan,
        tuple(DeadPath(IPv6Address(row.carrier), row.since, row.evidence, row.at) for row in form.dead),
        tuple(
            SentFlow(
                row.dst, row.protocol, row.src_port, row.dst_port, row.packets, row.bytes, IPv6Address(row.carrier)
            )
            for row in form.flows
        ),
        tuple(RoundTrips(IPv6Address(row.carrier), row.median_us, row.lost) for row in form.round_trips),
        None if form.counters is None else _counters(form.counters),
        None if form.pacing is None else FlowPacing(**form.pacing.model_dump()),
        form.run,
        form.number,
        None if form.ports is None else _ports(form.ports),
        tuple(Bypass(IPv6Address(row.probe), row.came_back) for row in form.bypasses),
    )


def _ports(form: PortReportForm) -> PortReport:
    if form.qps_page >= form.qps_pages:
        raise InputError(f"there are {form.qps_pages} pages", field="ports.qps_page", value=form.qps_page)
    return PortReport(
        form.state,
        tuple(FlowPort(**row.model_dump()) for row in form.flows),
        tuple(PortlessPaths(row.dst, row.map, tuple(row.paths)) for row in form.unreachable),
        tuple(form.silent),
        tuple(StrangeAnswers(row.dst, row.port, tuple(row.answers), row.unreachable) for row in form.strange),
        form.moved,
        form.probes,
        form.unanswered,
        form.hash,
        None if form.qps is None else tuple(ConnectedQp(**row.model_dump()) for row in form.qps),
        form.qps_page,
        form.qps_pages,
        form.packets,
        None if form.devices is None else tuple(form.devices),
    )


def _counters(form: NicCountersForm) -> NicCounters:
    """Return counters as values; lists by class become tuples."""
    given: dict[str, Any] = form.model_dump()
    named: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return NicCounters(**named)


READERS = BodyReaders(read_preview, read_survival, read_sightings, read_host_report)
