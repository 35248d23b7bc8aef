"""The document of ``/healthz``: whether the controller does its work, and whether jobs are as fast as they may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from controller.core.controller_state import ControllerState
from controller.core.ports.enforcer import AgentCounts, SwitchReport
from controller.core.speeds.job_speeds import carried_unplanned
from controller.core.speeds.speeds_now import SpeedsNow
from controller.model.fabric import Fabric
from controller.model.switch_key import SwitchKey
from controller.planning.drain import known
from controller.routing.times.starving import starved_line
from controller.southbound.cabling.findings import MISSING_SWITCH
from controller.southbound.left_alone import left_alone as left_alone_text
from controller.views.documents import VERSION, Active, drained_cables

MOST_FINDINGS = 100
"""Most findings of the cabling check that health lists one by one, since it is requested often."""

MOST_NAMED = 20
"""Most switches or jobs that one reason names; the rest are counted."""

SLOWER = 1.005
"""Relative time above which a job counts as slower."""


@dataclass(frozen=True)
class Troubles:
    """The reasons for failed states, for a broken store, and for faults of switches; empty: no trouble.

    ``refused``: some switch does not take the newest plan.
    """

    plan: str = ""
    store: str = ""
    switches: Sequence[str] = ()
    refused: bool = False


def health(
    state: ControllerState,
    switches: Sequence[SwitchReport],
    intended: Fabric | None,
    active: Active,
    troubles: Troubles,
    speeds: SpeedsNow,
    *,
    was_up: bool = False,
    left_alone: frozenset[SwitchKey] = frozenset(),
    agents: AgentCounts | None = None,
) -> dict[str, Any]:
    """Return whether the controller does its work, the reasons if not, the reasons for slow jobs, and the slowest job.

    Args:
        state: the newest state.
        switches: those that are connected.
        intended: the fabric of the file, if there is one.
        active: the active plan.
        troubles: what else is wrong.
        speeds: of jobs now.
        was_up: a plan has been active since the start; a fault after that is no start.
        left_alone: switches at which nothing is enforced; none is waited for, and no plan is claimed to hold there.
        agents: of hosts, where these carry out plans.
    """
    # Routers are enforced at by hosts, and never connect.
    expected = None if intended is None else len(intended.datapath_ids)
    none_follows = intended is not None and all(switch.key in left_alone for switch in intended.switches)
    is_up = none_follows or (bool(switches) and (active is not None or troubles.refused))
    starting = state.fabric is None or not (is_up or was_up)
    reasons = [*_faults(state, switches, troubles), *_findings(state, expected)]
    reasons += _of_state(state, switches, active, alone=none_follows)
    if state.fabric is None:
        reasons.append(f"the fabric is not known yet: {unknown_because(intended)}")
    return {
        "status": "starting" if starting else "degraded" if reasons else "ok",
        "reasons": reasons,
        "degraded_service": [*_alone(state, left_alone), *_service(state)],
        "slowest_job": slowest_job(speeds),
        "active_epoch": None if active is None else active[0],
        "version": VERSION,
        "mode": state.desired.mode,
        "enforcement": state.desired.enforcement,
        "switches": {"connected": sum(report.connected for report in switches), "expected": expected},
        "agents": None if agents is None else asdict(agents),
        "jobs": len(state.jobs),
        "flows": state.traffic.n_flows,
    }


def slowest_job(speeds: SpeedsNow) -> dict[str, Any]:
    """Return the slowest job now; without a speed and with the reason where it is not known."""
    slowest = speeds.slowest
    if slowest is not None:
        return {"job": slowest[0], "speed": slowest[1], "unknown": None}
    return {"job": None, "speed": None, "unknown": speeds.unknown or None}


def unknown_because(intended: Fabric | None) -> str:
    """Return the reason why there is no fabric yet."""
    return "no host has been discovered at any switch" if intended is None else "the controller has just started"


def _faults(state: ControllerState, switches: Sequence[SwitchReport], troubles: Troubles) -> Iterator[str]:
    if troubles.plan:
        yield f"no new plan could be made: {troubles.plan}"
    if troubles.store:
        yield f"changes are refused because the store does not work: {troubles.store}"
    yield from (f"{report.name}: {report.error}" for report in switches if report.error)
    yield from troubles.switches
    yield from (f"job {job.name} is stored but not planned: {job.left_out}" for job in state.desired.left_out)


def _findings(state: ControllerState, expected: int | None) -> Iterator[str]:
    """Yield the findings of the cabling check; switches that are not connected are one reason together."""
    missing = [finding for finding in state.survey.findings if finding.kind == MISSING_SWITCH]
    if len(missing) > 1:
        of = "" if expected is None else f" of {expected}"
        yield f"{len(missing)}{of} switches are not connected: {_named(finding.subject for finding in missing)}"
        others = [finding for finding in state.survey.findings if finding.kind != MISSING_SWITCH]
    else:
        others = list(state.survey.findings)
    yield from (finding.text for finding in others[:MOST_FINDINGS])
    if len(others) > MOST_FINDINGS:
        yield f"and {len(others) - MOST_FINDINGS} more findings, which /v1/fabric lists"


def _of_state(
    state: ControllerState, switches: Sequence[SwitchReport], active: Active, *, alone: bool
) -> Iterator[str]:
    if state.fabric is None:
        return
    gone = state.desired.drained - known(state.fabric, state.desired.drained)
    yield from (f"{name} is drained, but the fabric has no cable or switch of this name" for name in sorted(gone))
    if not switches and not alone and not any(finding.kind == MISSING_SWITCH for finding in state.survey.findings):
        yield "no switch is connected"
    elif switches and (active is None or active[0] < state.enforced):
        behind = [each for each in switches if each.epoch < state.enforced and each.key in state.names]
        hosts = [host for each in behind for host in each.waits_for]
        if hosts:
            agents = f"agent of {hosts[0]} has" if len(hosts) == 1 else f"agents of {_named(hosts)} have"
            yield f"plan {state.enforced} is not active yet: the {agents} not confirmed it"
            return
        lacks = [each.name for each in behind]
        where = f": not on {_named(lacks)}" if lacks and len(lacks) < len(switches) else ""
        yield f"plan {state.enforced} is not active on every switch yet{where}"


def _alone(state: ControllerState, left_alone: frozenset[SwitchKey]) -> Iterator[str]:
    names = [] if state.fabric is None else [each.name for each in state.fabric.switches if each.key in left_alone]
    if names:
        yield f"{left_alone_text(names)}; no plan is known to hold there, so the speeds of jobs are not known"


def _service(state: ControllerState) -> Iterator[str]:
    """Yield why jobs are, or may be, slower than planned for or than with all links; no fault of the controller."""
    if state.fabric is None or not state.traffic.n_flows:
        return
    speeds, mode = state.speeds, state.desired.mode
    if mode == "ecmp":
        yield "mode ecmp: switches hash all flows, so no plan is in force and the speeds of jobs are not known"
    elif mode == "frozen" and (state.applied is None or not state.applied.enforced):
        yield "mode frozen: switches hash all flows, as before; the speeds of jobs are not known"
    elif mode == "frozen":
        waits = f"; plan {state.epoch} waits" if state.epoch > state.enforced else ""
        unknown = (
            "; the speeds of jobs are not known: some flows have no live path in it" if speeds.speed is None else ""
        )
        yield f"mode frozen: switches keep plan {state.enforced}{waits}{unknown}"
    yield from _without_path(state)
    if state.candidate is not None and state.candidate.plan.starved:
        yield starved_line(state.candidate.plan.starved)
    out = sum(
        not cable.up or drained for cable, drained in zip(state.fabric.cables, drained_cables(state), strict=True)
    )
    slower = list(_slower(state, links_out=out > 0))
    if slower:
        jobs = "job is" if len(slower) == 1 else "jobs are"
        cables = f"{out} of {len(state.fabric.cables)} cables down or drained" if out else "all cables in use"
        yield f"{len(slower)} {jobs} slower than alone on the whole fabric, with {cables}: {_named(slower)}"


def _without_path(state: ControllerState) -> Iterator[str]:
    """Yield how many flows have no path in the plan, and how many of them base forwarding carries all the same."""
    if state.candidate is None or not len(state.candidate.plan.unroutable):
        return
    flows = state.candidate.plan.unroutable
    carried = int(carried_unplanned(state.candidate).sum())
    text = f"{len(flows)} {'flow has' if len(flows) == 1 else 'flows have'} no path in the plan"
    if carried:
        text += f"; base forwarding carries {carried} of them: the live parallel cables of two leaves differ in number"
    yield text


def _slower(state: ControllerState, *, links_out: bool) -> Iterator[str]:
    """Yield each job that is slower than when all links were in use; where that is not known, than alone."""
    slowdown, whole = state.speeds.slowdown or {}, state.speeds.whole
    for job, now in sorted(slowdown.items(), key=lambda row: (-row[1], row[0])):
        if whole is not None and job in whole:
            if now > whole[job] * SLOWER:
                yield f"{job} at {1 / now:.3f}, was {1 / whole[job]:.3f}"
        elif links_out and now > SLOWER:
            yield f"{job} at {1 / now:.3f}"


def _named(names: Iterable[str]) -> str:
    every = list(names)
    more = f", and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return ", ".join(every[:MOST_NAMED]) + more
