"""Documents and metrics of the controller of an optical fabric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily

from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.planning.plan_document import ratio
from controller.circuits.southbound.addresses import mac, nic_address
from controller.core.circuit_state import CircuitState, ServerRow
from controller.core.desired_state import AdmittedJob
from controller.core.ports.enforcer import SwitchReport
from controller.model.units import GBIT
from controller.views.documents import VERSION
from controller.views.times import when

ENFORCEMENT = "circuits"
MOST_NAMED = 20
"""Circuits or servers that health lists one by one."""


@dataclass(frozen=True)
class CircuitView:
    """All that documents show.

    Attributes:
        fabric: of the file.
        state: the newest one.
        panels: those that are connected.
        ports_down: (panel, port) of NICs that do not receive light.
        servers: their agents.
        notices: faults of connections and of rules that were read back.
    """

    fabric: OpticalFabric
    state: CircuitState
    panels: Sequence[SwitchReport]
    ports_down: frozenset[tuple[str, int]]
    servers: Sequence[ServerRow]
    notices: Sequence[str]

    @property
    def connected(self) -> dict[str, SwitchReport]:
        """The panels of the fabric that are connected, by name."""
        names = dict(zip(self.fabric.dpids, self.fabric.switch_names, strict=True))
        return {names[each.key]: each for each in self.panels if isinstance(each.key, int) and each.key in names}

    def shard_of(self, job: str) -> tuple[ShardPlan | None, ShardPlan | None]:
        """Return how a job is planned, and how it sends now; ``None``: not at all."""
        planned = () if self.state.plan is None else self.state.plan.shards
        return _with(planned, job), None if job in self.state.cut_off else _with(self.state.served, job)


def _with(shards: Iterable[ShardPlan], job: str) -> ShardPlan | None:
    return next((each for each in shards if job in each.shard.jobs), None)


def circuits(view: CircuitView) -> bytes:
    """Return circuits, shards, panels and servers (``controller.rest.schemas.CircuitsDocument``)."""
    state, fabric, connected = view.state, view.fabric, view.connected
    plan = state.plan
    document = {
        "epoch": state.epoch,
        "stage": None if state.stage is None else asdict(state.stage),
        "trouble": state.trouble or None,
        "lossy": state.lossy or None,
        "panels": [
            {
                "name": name,
                "dpid": dpid,
                "connected": name in connected,
                "confirmed": name in connected and connected[name].epoch == state.epoch,
                "error": (connected[name].error if name in connected else "") or None,
                "circuits": sum(each.switch == name for each in state.lit or ()),
            }
            for name, dpid in zip(fabric.switch_names, fabric.dpids, strict=True)
        ],
        "shards": [] if plan is None else [_shard(view, each) for each in plan.shards],
        "circuits": [] if plan is None else [row for each in plan.shards for row in _circuits(view, each)],
        "servers": [asdict(row) for row in view.servers],
    }
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def _shard(view: CircuitView, plan: ShardPlan) -> dict[str, Any]:
    _, now = view.shard_of(plan.shard.jobs[0])
    return {
        "jobs": list(plan.shard.jobs),
        "servers": [view.fabric.servers[server] for server in plan.shard.servers],
        "seconds": plan.seconds,
        "seconds_now": None if now is None else now.seconds,
        "ideal_seconds": plan.ideal_seconds,
        "bound_seconds": plan.bound_seconds,
        "over_ideal": ratio(plan.seconds, plan.ideal_seconds),
        "over_bound": ratio(plan.seconds, plan.bound_seconds),
        "tax": plan.tax,
    }


def _state_of(state: CircuitState, circuit: Circuit) -> str:
    if circuit not in (state.lit or ()):
        return "dark"
    return "failed" if circuit in state.faults else "lit"


def _ends(fabric: OpticalFabric, circuit: Circuit) -> dict[str, Any]:
    (sender, sending), (receiver, receiving) = fabric.ends(circuit)
    return {
        "from": fabric.servers[sender],
        "from_nic": sending,
        "to": fabric.servers[receiver],
        "to_nic": receiving,
    }


def _bytes_now(view: CircuitView) -> Mapping[Circuit, tuple[float, float]]:
    """Return the bytes on each circuit in an iteration, and its seconds, as servers send now."""
    loads: dict[Circuit, tuple[float, float]] = {}
    for each in view.state.served:
        d, m = each.succ.shape
        live = [(k, u) for k in range(d) for u in range(m) if each.succ[k, u] != u]
        total = each.loads.sum(axis=0)
        for circuit, (k, u) in zip(each.circuits, live, strict=True):
            loads[circuit] = float(total[k, u]), each.seconds
    return loads


def _circuits(view: CircuitView, plan: ShardPlan) -> Iterator[dict[str, Any]]:
    loads = _bytes_now(view)
    for each in plan.circuits:
        yield {
            "switch": each.switch,
            "in_port": each.in_port,
            "out_port": each.out_port,
            **_ends(view.fabric, each),
            "state": _state_of(view.state, each),
            "reason": view.state.faults.get(each),
            "bytes": round(loads.get(each, (0.0, 0.0))[0]),
        }


def fabric(view: CircuitView) -> bytes:
    """Return panels as leaves, and NICs as their hosts (``controller.rest.schemas.FabricDocument``)."""
    there, connected = view.fabric, view.connected
    switches = [
        {
            "name": name,
            "role": "leaf",
            "dpid": dpid,
            "connected": name in connected,
            "pod": None,
            "agg_plane": None,
            "plane": None,
        }
        for name, dpid in zip(there.switch_names, there.dpids, strict=True)
    ]
    hosts = []
    for server, name in enumerate(there.servers):
        for nic in range(there.nics):
            panel, port = there.switch_names[int(there.switch_of[nic])], int(there.ports[server, nic])
            hosts.append(
                {
                    "name": f"{name}/{nic}",
                    "leaf": panel,
                    "gbps": there.gbps,
                    "ip": nic_address(server, nic),
                    "mac": mac(server, nic),
                    "server": name,
                    "rail": nic,
                    "port": port,
                    "up": (panel, port) not in view.ports_down,
                    "nic": None,
                }
            )
    missing = [
        {"kind": "missing switch", "subject": name, "text": f"{name} is not connected"}
        for name in there.switch_names
        if name not in connected
    ]
    cabling = {"matches": not missing, "findings": missing, "hosts_unplaced": []}
    document = {
        "source": "file",
        "version": str(view.state.epoch),
        "switches": switches,
        "hosts": hosts,
        "links": [],
        "cabling": cabling,
    }
    return orjson.dumps(document)


def links(view: CircuitView) -> bytes:
    """Return the circuits of the plan as links (``controller.rest.schemas.LinkList``)."""
    loads, plan = _bytes_now(view), view.state.plan
    rows = []
    for each in () if plan is None else (circuit for shard in plan.shards for circuit in shard.circuits):
        ends, (size, seconds) = _ends(view.fabric, each), loads.get(each, (0.0, 0.0))
        rows.append(
            {
                "id": f"{each.switch}:{ends['from']}/{ends['from_nic']}->{ends['to']}/{ends['to_nic']}",
                "gbps": view.fabric.gbps,
                "load_gbps": size * GBIT / seconds if seconds else 0.0,
                "up": _state_of(view.state, each) == "lit",
                "known": each.switch in view.connected,
                "drained": False,
            }
        )
    document = {"under": "plan", "version": str(view.state.epoch), "since": None, "measured": None, "period": 0.0}
    return orjson.dumps({**document, "links": rows})


def jobs(view: CircuitView) -> bytes:
    """Return all jobs by name (``controller.rest.schemas.JobList``)."""
    rows = [
        {
            **_about(view, each),
            "digest": each.digest,
            "collectives": _collectives(view, each),
            "flows": _pairs(view, each.name),
            "bytes": _sent(view, each.name),
        }
        for each in sorted(view.state.jobs, key=lambda one: one.name)
    ]
    return orjson.dumps({"jobs": rows, "times": None})


def job(view: CircuitView, admitted: AdmittedJob) -> bytes:
    """Return a job (``controller.rest.schemas.JobDocument``); /v1/circuits has its circuits."""
    rest = {"epoch": view.state.epoch, "unroutable": [], "collectives": [], "flows": []}
    return orjson.dumps({**_about(view, admitted), "bytes": _sent(view, admitted.name), **rest})


def _about(view: CircuitView, admitted: AdmittedJob) -> dict[str, Any]:
    planned, now = view.shard_of(admitted.name)
    state = view.state
    current = state.planned.get(admitted.name) == admitted.revision
    waits = None if current else state.trouble or "its circuits are being planned"
    return {
        "name": admitted.name,
        "revision": admitted.revision,
        "changed": when(admitted.changed),
        "by": admitted.by,
        "weight": admitted.weight,
        "min_speed": None if planned is None else _speed(planned),
        "speed": 0.0 if admitted.name in state.cut_off else None if now is None else _speed(now),
        "times": None,
        "active": current and planned is not None and state.stage is None and planned is now,
        "left_out": waits,
    }


def _speed(plan: ShardPlan) -> float:
    """Return the ideal time over the planned one; 1 where nothing is sent."""
    return plan.ideal_seconds / plan.seconds if plan.seconds else 1.0


def _collectives(view: CircuitView, admitted: AdmittedJob) -> int:
    planned, _ = view.shard_of(admitted.name)
    return 0 if planned is None else len({each.collective for each in planned.shard.demand.groups})


def _pairs(view: CircuitView, name: str) -> int:
    planned, _ = view.shard_of(name)
    if planned is None:
        return 0
    demand = planned.shard.demand
    return int((demand.messages > 0).any(axis=0).sum()) + sum(len(each.members) for each in demand.groups)


def _sent(view: CircuitView, name: str) -> int:
    planned, _ = view.shard_of(name)
    return 0 if planned is None else round(planned.shard.demand.total_bytes)


def health(view: CircuitView) -> dict[str, Any]:
    """Return whether the controller does its work (``controller.rest.schemas.Health``)."""
    state, connected, fabric_ = view.state, view.connected, view.fabric
    reasons = [f"{name} is not connected" for name in fabric_.switch_names if name not in connected]
    reasons += [f"{name}: {each.error}" for name, each in connected.items() if each.error]
    if state.trouble:
        reasons.append(f"no new plan could be made: {state.trouble}")
    faults = sorted(state.faults.items())
    reasons += [_fault(fabric_, circuit, why) for circuit, why in faults[:MOST_NAMED]]
    if len(faults) > MOST_NAMED:
        reasons.append(f"and {len(faults) - MOST_NAMED} more circuits carry nothing")
    if state.cut_off:
        reasons.append(f"servers of {', '.join(state.cut_off)} do not all reach each other")
    silent = [row.server for row in view.servers if row.needed and row.heard_seconds is None]
    if silent:
        more = f" and {len(silent) - MOST_NAMED} more" if len(silent) > MOST_NAMED else ""
        reasons.append(f"no agent was heard of {', '.join(silent[:MOST_NAMED])}{more}")
    behind = [row.server for row in view.servers if row.needed and row.heard_seconds is not None and not row.confirmed]
    if behind and state.stage is None:
        reasons.append(f"not confirmed by {', '.join(behind[:MOST_NAMED])}: the newest routes")
    reasons += view.notices
    starting = state.lit is None or (state.plan is None and not state.trouble)
    speeds = {each.name: _about(view, each)["speed"] for each in state.jobs}
    known = {name: speed for name, speed in speeds.items() if speed is not None}
    slowest = min(known, key=lambda name: known[name], default=None)
    unknown = None if slowest is not None or not state.jobs else "no plan has been made yet"
    needed = [row for row in view.servers if row.needed]
    service = []
    if state.stage is not None:
        service.append(f"circuits change, stage {state.stage.number} of {state.stage.of}: {state.stage.doing}")
    confirmed = all(name in connected and connected[name].epoch == state.epoch for name in fabric_.switch_names)
    return {
        "status": "starting" if starting else "degraded" if reasons else "ok",
        "reasons": reasons,
        "degraded_service": service,
        "slowest_job": {
            "job": slowest,
            "speed": None if slowest is None else known[slowest],
            "unknown": unknown,
        },
        "active_epoch": state.epoch if confirmed and state.epoch else None,
        "version": VERSION,
        "mode": "planned",
        "enforcement": ENFORCEMENT,
        "switches": {"connected": len(connected), "expected": len(fabric_.switch_names)},
        "agents": {
            "expected": len(needed),
            "heard": sum(row.heard_seconds is not None for row in needed),
            "confirmed": sum(row.confirmed for row in needed),
        },
        "jobs": len(state.jobs),
        "flows": sum(_pairs(view, each.name) for each in state.jobs),
    }


def _fault(fabric_: OpticalFabric, circuit: Circuit, why: str) -> str:
    ends = _ends(fabric_, circuit)
    return (
        f"{circuit.switch}: the circuit from port {circuit.in_port} ({ends['from']}) to port {circuit.out_port} "
        f"({ends['to']}) carries nothing: {why}"
    )


def metrics(view: CircuitView) -> Iterator[Metric]:
    """Yield the metrics of circuits."""
    state = view.state
    planned = [] if state.plan is None else [circuit for each in state.plan.shards for circuit in each.circuits]
    by_state = GaugeMetricFamily("fairspine_circuits", "Circuits of the plan, by their state.", labels=["state"])
    for name in ("lit", "failed", "dark"):
        by_state.add_metric([name], sum(_state_of(state, each) == name for each in planned))
    yield by_state
    yield GaugeMetricFamily("fairspine_jobs", "Jobs.", value=len(state.jobs))
