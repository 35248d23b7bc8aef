"""The document of ``/v1/trace``, from a state and a reading of the switches: pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.model.errors import UnavailableError
from controller.model.switch_key import SwitchKey
from controller.planning.plane_drain import PortsAside, without_ports
from controller.southbound.enforcement.checked_plans import checked_rows
from controller.southbound.enforcement.learned_ports import (
    NONE_LEARNED,
    LearnedPorts,
    learned_of_rows,
    with_learned_ports,
)
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.telemetry.ecmp_draws import under_ecmp
from controller.telemetry.fabric_snapshot import FabricSnapshot
from controller.telemetry.port_rates import Readings
from controller.telemetry.trace import TraceInputs
from controller.telemetry.trace_document import live_trace
from controller.views.times import when

CHUNK = 1000
"""Flows that are encoded at a time."""


def document(
    state: ControllerState,
    reading: FabricSnapshot,
    confirmed: Mapping[SwitchKey, int],
    job: str | None,
    compare: bool,
    readings: Readings,
    began: float,
    clock: Callable[[], float],
    settings: Settings,
    learned: LearnedPorts = NONE_LEARNED,
) -> bytes:
    """Return the measured path of every flow.

    Args:
        state: with a candidate.
        reading: rules and counters that the switches have sent.
        confirmed: epoch that each connected switch has confirmed, by key.
        job: name of the job whose flows are listed; ``None``: all.
        compare: whether to add ECMP's result for the same flows.
        readings: what the poller knows: the rates of flows for which the switches were read only once.
        began: when it was asked for, by the clock.
        clock: seconds of a monotonic clock.
        settings: the options of the enforcement are taken from here.
        learned: source ports that agents have found.

    Raises:
        UnavailableError: the state has no plan.
    """
    fabric, candidate = state.fabric, state.candidate
    if fabric is None or candidate is None or state.encoding is None:
        raise UnavailableError("there is no plan yet")
    enforcement = state.desired.enforcement
    if state.desired.mode == "frozen" and state.applied is not None:
        enforcement = state.applied.enforcement
    chosen = ENFORCEMENTS.named(enforcement)
    wire, by_probes = state.encoding, None
    if chosen.learns_ports and state.desired.mode != "ecmp":
        by_probes = learned_of_rows(fabric, candidate.traffic, wire, learned)
        wire = with_learned_ports(fabric, candidate.traffic, wire, learned)
    elif chosen.router_export and any(learned.values()) and state.desired.mode != "ecmp":
        options = chosen.options_of(settings)
        by_probes = checked_rows(chosen, fabric, candidate.traffic, wire, learned, options)
    situation = TraceInputs(
        fabric=fabric,
        traffic=candidate.traffic,
        wire=wire,
        mode=state.desired.mode,
        enforcement=enforcement,
        epoch=state.epoch,
        enforced=state.enforced,
        confirmed=dict(confirmed),
        by_probes=by_probes,
        segments=None if state.desired.mode == "ecmp" else chosen.segments(fabric, chosen.options_of(settings)),
    )
    polled = readings.row_rates(fabric, candidate.traffic, state.encoding)
    # A plane or leaf that is drained and empty has no part in an imbalance.
    aside, traffic = candidate.drain.ports, candidate.traffic
    ends = list({*traffic.src.tolist(), *traffic.dst.tolist()}) if aside else []
    planes = set(aside.planes).difference(fabric.planes.of_host[ends].tolist())
    leaves = set(aside.leaves).difference(fabric.host_leaf[ends].tolist())
    empty = PortsAside(tuple(sorted(planes)), tuple(sorted(leaves)))
    counted = without_ports(candidate.usable, empty) if empty else candidate.usable
    trace = live_trace(
        situation, counted, reading, {row.name: row.rank_of for row in state.jobs}, job=job, polled=polled
    )
    compared: dict[str, Any] | None = None
    if compare:
        compared = {
            **under_ecmp(
                candidate.usable, candidate.traffic, capacity=candidate.planned_on, counted_on=counted, job=job
            ),
            "plan_min_speed": candidate.plan.objective.min_speed,
        }
    switches = fabric.switches
    return orjson.dumps(
        {
            "at": when(reading.at),
            "epoch": state.epoch,
            "mode": state.desired.mode,
            "enforcement": enforcement,
            "silent": [switch.name for switch in switches if switch.key not in reading.switches],
            **trace,
            "flows": _encoded(trace["flows"]),
            "compare": compared,
            "seconds": max(0.0, clock() - began),
        }
    )


def _encoded(flows: list[dict[str, Any]]) -> orjson.Fragment:
    """Encode many flows piece by piece: encoding all at once would block the event loop."""
    parts = (orjson.dumps(flows[start : start + CHUNK])[1:-1] for start in range(0, len(flows), CHUNK))
    return orjson.Fragment(b"[" + b",".join(parts) + b"]")
