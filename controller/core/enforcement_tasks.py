"""What is to be enforced of a plan under a mode. Compilers of the enforcer make rules of it."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.config import Settings, options_of
from controller.core.desired_state import DesiredState
from controller.core.plan_candidate import PlanCandidate
from controller.core.saved.applied_plan import AppliedPlan
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.paces import Paces, PacketSize
from controller.model.switch_key import SwitchKey
from controller.model.traffic import Collective, Int64Array, Traffic, key_parts
from controller.planning.drain import drain, without_drained
from controller.routing import PreviousPlan
from controller.routing.pacing.paces import wire_paces
from controller.southbound.enforcement.enforcement_task import EnforcementTask, PlannedFlows
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.registry import ENFORCEMENTS, encode_flows


def flow_encoding_for(
    fabric: Fabric, desired: DesiredState, candidate: PlanCandidate, applied: AppliedPlan | None
) -> FlowEncoding:
    """Return the pieces of every flow with their paths and the source ports that hosts should use.

    In mode ``frozen`` these are the former ones, even after a new plan: where ports select paths, another port would
    be another path.

    Args:
        fabric: the fabric that the candidate is for.
        desired: its mode and enforcement are used.
        candidate: the newest plan.
        applied: the plan that switches hold.

    Raises:
        InputError: two hosts have more flows than there are ports for them.
    """
    assignment, enforcement = candidate.plan.assignment, desired.enforcement
    if desired.mode == "frozen" and applied is not None:
        enforcement = applied.enforcement
        assignment = _as_remembered(candidate.traffic, assignment, applied.paths.on(fabric))
    return encode_flows(fabric, candidate.traffic, assignment, enforcement)


def paces_for(
    settings: Settings, desired: DesiredState, candidate: PlanCandidate, encoding: FlowEncoding, enforcement: str
) -> Paces | None:
    """Return the paces of the rows of an encoding; ``None`` in mode ``ecmp``, in which flows have no known paths.

    Args:
        settings: the size of packets, and the rule of paces.
        desired: its mode and learned jobs are used: it is not known when those send.
        candidate: the plan of the encoding's flows.
        encoding: their paths.
        enforcement: the one that made it, by which packets grow.
    """
    if desired.mode == "ecmp":
        return None
    wire_gbps = wire_paces(
        candidate.planned_on,
        candidate.traffic,
        Assignment(encoding.flow, encoding.path, encoding.share),
        schedule=candidate.plan.schedule,
        varying=frozenset(job.name for job in desired.learned_traffic),
        rule=options_of(settings).paces,
    )
    return Paces(wire_gbps, PacketSize(settings.mtu, ENFORCEMENTS.named(enforcement).growth))


def task_for_mode(
    fabric: Fabric,
    desired: DesiredState,
    candidate: PlanCandidate,
    encoding: FlowEncoding,
    unknown: frozenset[SwitchKey],
    learn: bool,
    paces: Paces | None = None,
) -> EnforcementTask:
    """Return what is to be enforced: a plan (mode ``planned``), or forwarding alone (``ecmp``).

    Args:
        fabric: the fabric that the candidate is for.
        desired: its mode and enforcement are used.
        candidate: the plan to enforce.
        encoding: of the candidate.
        unknown: switches without a role.
        learn: whether hosts may appear that no rule knows.
        paces: of the rows of the encoding, for hosts; no rule of a switch depends on them.
    """
    if desired.mode != "ecmp":
        planned = PlannedFlows(desired.enforcement, candidate.traffic, encoding, paces)
        return EnforcementTask(fabric, candidate.usable, planned, unknown, learn, desired.enforcement)
    by_hosts = ENFORCEMENTS.named(desired.enforcement).by_hosts
    ends = np.union1d(candidate.traffic.src, candidate.traffic.dst).tolist() if by_hosts else ()
    return EnforcementTask(fabric, candidate.usable, None, unknown, learn, desired.enforcement, frozenset(ends))


def task_of_applied_plan(
    fabric: Fabric, applied: AppliedPlan, unknown: frozenset[SwitchKey], learn: bool, spread: Int64Array
) -> EnforcementTask:
    """Return what was to be enforced with a remembered plan, on the network as it was then.

    ``spread``: as of ``traffic_of_paths``.
    """
    then = _as_it_was(fabric, applied.links_down)
    planned = None
    if applied.enforced:
        traffic, assignment = traffic_of_paths(applied.paths.on(then), spread)
        encoding = encode_flows(then, traffic, assignment, applied.enforcement)
        planned = PlannedFlows(applied.enforcement, traffic, encoding)
    usable = without_drained(then, drain(then, applied.drained))
    return EnforcementTask(then, usable, planned, unknown, learn, applied.enforcement)


def _as_it_was(fabric: Fabric, down: tuple[str, ...]) -> Fabric:
    gone = set(down)
    return dataclasses.replace(
        fabric,
        hosts=tuple(dataclasses.replace(host, up=f"{host.name}-{host.leaf}" not in gone) for host in fabric.hosts),
        cables=tuple(
            dataclasses.replace(cable, up=name not in gone)
            for name, cable in zip(fabric.cable_names, fabric.cables, strict=True)
        ),
    )


def traffic_of_paths(paths: PreviousPlan, spread: Int64Array) -> tuple[Traffic, Assignment]:
    """Turn remembered rows into flows; a switch knows no more of a flow than its addresses and ports.

    Args:
        paths: the rows.
        spread: ``unit_key`` of flows whose packets may be spread (``DesiredState.spread_keys``).
    """
    units, flow = np.unique(paths.key, return_inverse=True)
    n = len(units)
    src, dst, udp_src = key_parts(units)
    any_spread = bool(np.isin(units, spread).any())
    traffic = Traffic(
        src=src,
        dst=dst,
        bytes=np.ones(n, dtype=np.int64),
        collective=np.isin(units, spread).astype(np.int32),
        number=np.arange(n, dtype=np.int32),
        udp_src=udp_src,
        collectives=(
            Collective("remembered", "all"),
            *([Collective("remembered", "spread", any_order=True)] * any_spread),
        ),
    )
    return traffic, _pieces(flow.reshape(-1), paths.path, paths.share)


def _as_remembered(traffic: Traffic, assignment: Assignment, paths: PreviousPlan) -> Assignment:
    """Return the assignment in which flows with remembered paths, live or not, have those paths."""
    flow, path, share = paths.rows(traffic)
    known = _pieces(flow, path, share)
    rest = ~np.isin(assignment.flow, flow)
    flows = np.concatenate([assignment.flow[rest], known.flow])
    order = np.argsort(flows, kind="stable")
    return Assignment(
        flows[order],
        np.concatenate([assignment.path[rest], known.path])[order],
        np.concatenate([assignment.share[rest], known.share])[order],
    )


def _pieces(flow: IntArray | Int64Array, path: IntArray, share: FloatArray) -> Assignment:
    """Turn remembered rows, ascending by flow, into pieces, dropping duplicates (flows that share a port)."""
    _, first = np.unique(np.stack([flow, path]), axis=1, return_index=True)
    rows = np.sort(first)
    return Assignment(flow[rows].astype(np.int32), path[rows], share[rows])
