"""The next state of the controller, as a pure function: network and desired state -> fabric, plan, compiled plan.

It may take long (solving, compiling), so it runs off the event loop; it reads no clock but the one it is given, and
touches nothing but its arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.desired_state import DesiredState
from controller.core.enforcement_tasks import flow_encoding_for, paces_for, task_for_mode, task_of_applied_plan
from controller.core.plan_candidate import PlanCandidate, make_candidate
from controller.core.ports.enforcer import Compiler
from controller.core.saved.applied_plan import AppliedPlan
from controller.core.speeds.job_speeds import job_speeds
from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState
from controller.model.paths.barred_paths import NONE_BARRED, BarredPaths
from controller.routing import PreviousPlan
from controller.southbound.cabling.survey import Survey, survey
from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.southbound.probed_ports.portless_paths import barred_paths


def reconcile(
    settings: Settings,
    intended: Fabric | None,
    network: NetworkState,
    desired: DesiredState,
    before: ControllerState,
    clock: Callable[[], float],
    compiler: Compiler,
    *,
    last_epoch: int = 0,
    take: PreviousPlan | None = None,
    keep_learned: bool = False,
) -> ControllerState:
    """Return the next state. Where neither network nor desired state changed: the same plan and rules, the same epoch.

    Args:
        settings: the controller's options.
        intended: the fabric of the file; ``None``: discovery alone.
        network: the observed state.
        desired: the desired state.
        before: the state before this one; the new plan stays close to its applied plan.
        clock: seconds, for the policy's own time.
        compiler: the enforcer's; it makes what the state's plan is enforced by.
        last_epoch: the largest epoch that was ever used, if that is not the one of ``before``.
        take: paths that flows are to have wherever they are live (a rollback).
        keep_learned: learned flows stay on their live paths (some have ended).

    Raises:
        InputError: it cannot be enforced so: flows or labels are too many.
    """
    # Jobs change far more often than the network, and a survey of a large network takes long.
    surveyed = before.survey
    if before.fabric is None or network != before.network:
        surveyed = survey(
            intended,
            network,
            before=before.fabric or before.saved_fabric,
            host_gbps=settings.discovered_host_gbps,
            uplink_gbps=settings.discovered_uplink_gbps,
        )
    network_known = not network.starting or (intended is not None and surveyed.settled)
    next_epoch = max(before.epoch, last_epoch) + 1
    if surveyed.fabric is None:
        return _listening(compiler, surveyed, network, desired, before, network_known, next_epoch)
    unknown = frozenset(network.switches - surveyed.fabric.switch_by_key.keys()) if intended is None else frozenset()
    same_network = (
        before.fabric is not None
        and before.fabric == surveyed.fabric
        and _learns(intended, surveyed) == _learns(intended, before.survey)
        and unknown == before.unknown
    )
    barred = barred_for(surveyed.fabric, network, desired)
    same = same_network and take is None and desired == before.desired and not _on_barred(before.candidate, barred)
    if same and before.network_known == network_known:
        return dataclasses.replace(before, survey=surveyed, network=network, desired=desired, changes=())
    candidate = make_candidate(
        settings,
        intended,
        surveyed.fabric,
        desired,
        before.applied,
        clock,
        before=before.candidate,
        take=take,
        keep_learned=keep_learned,
        barred=barred,
    )
    epoch = before.epoch if same or _resumed(before, candidate) else next_epoch
    applied = before.applied
    if desired.mode != "frozen" and (network_known or applied is None or not applied.given):
        applied = _remembered(surveyed.fabric, desired, candidate, epoch, network_known)
    encoding = flow_encoding_for(surveyed.fabric, desired, candidate, applied)
    kept = applied if desired.mode == "frozen" else None
    enforcement = desired.enforcement if kept is None else kept.enforcement
    state = ControllerState(
        epoch=epoch,
        survey=surveyed,
        network=network,
        desired=desired,
        candidate=candidate,
        encoding=encoding,
        paces=paces_for(settings, desired, candidate, encoding, enforcement),
        applied=applied,
        compiled=None,
        enforced=epoch,
        names={key: switch.name for key, switch in surveyed.fabric.switch_by_key.items()},
        unknown=unknown,
        network_known=network_known,
        last_known_fabric=surveyed.fabric if network_known else before.last_known_fabric,
        changes=tuple(link_changes(before.last_known_fabric, surveyed.fabric)) if network_known else (),
        speeds=job_speeds(desired.mode, surveyed.fabric, candidate, applied, before.speeds, headroom=settings.headroom),
    )
    learn = _learns(intended, surveyed)
    if desired.mode == "frozen":
        return _frozen(compiler, surveyed.fabric, before, state, learn)
    task = task_for_mode(surveyed.fabric, desired, candidate, encoding, unknown, learn, state.paces)
    return dataclasses.replace(state, compiled=compiler(task))


def barred_for(fabric: Fabric, network: NetworkState, desired: DesiredState) -> BarredPaths:
    """Return the paths that plans avoid: those without a source port, where ports select paths by the routers' hash."""
    chosen = ENFORCEMENTS.named(desired.enforcement)
    return barred_paths(fabric, network.portless) if chosen.learns_ports else NONE_BARRED


def _on_barred(candidate: PlanCandidate | None, barred: BarredPaths) -> bool:
    if candidate is None:
        return False
    return bool(barred.rows(candidate.planned_on, candidate.traffic, candidate.plan.assignment))


def _resumed(before: ControllerState, candidate: PlanCandidate) -> bool:
    """Return whether this is the first state after a restart and its plan equals the one before the restart."""
    kept, desired = before.applied, before.desired
    if before.candidate is not None or kept is None or kept.epoch != before.epoch or kept.inputs != candidate.inputs:
        return False
    # In mode frozen another enforcement may be desired than the one that switches follow.
    return kept.enforcement == desired.enforcement or desired.mode == "frozen"


def _remembered(
    fabric: Fabric, desired: DesiredState, candidate: PlanCandidate, epoch: int, given: bool
) -> AppliedPlan:
    return AppliedPlan(
        epoch=epoch,
        inputs=candidate.inputs,
        paths=candidate.paths,
        bound=candidate.plan.bound,
        links_down=links_down(fabric),
        drained=desired.drained,
        enforced=desired.mode == "planned",
        enforcement=desired.enforcement,
        given=given,
    )


def links_down(fabric: Fabric) -> tuple[str, ...]:
    """Return the cables and host links that are down, by the names that ``Fabric.without_links`` takes."""
    return () if fabric.link_up.all() else tuple(name for name, up in _links(fabric).items() if not up)


def link_changes(before: Fabric | None, now: Fabric) -> list[tuple[str, bool]]:
    """Return (name, up) of every changed cable and host link; a new one that is up is not a change."""
    if before is None or (before.link_ids == now.link_ids and np.array_equal(before.link_up, now.link_up)):
        return []
    old, new = _links(before), _links(now)
    gone = [(name, False) for name, up in old.items() if up and not new.get(name, False)]
    back = [(name, True) for name, up in new.items() if up and not old.get(name, True)]
    return gone + back


def _links(fabric: Fabric) -> dict[str, bool]:
    links = {name: cable.up for name, cable in zip(fabric.cable_names, fabric.cables, strict=True)}
    return links | {f"{host.name}-{host.leaf}": host.up for host in fabric.hosts}


def _frozen(
    compiler: Compiler, fabric: Fabric, before: ControllerState, state: ControllerState, learn: bool
) -> ControllerState:
    """Return the state with the rules that the switches hold; after a restart these are compiled again."""
    if before.desired.mode != "frozen":
        # The mode becomes frozen now. Rules that were not fit to be installed are not held by the switches.
        held, enforced = before.compiled if before.network_known else None, state.epoch
        applied = None if before.applied is None else dataclasses.replace(before.applied, epoch=state.epoch)
        state = dataclasses.replace(state, applied=applied)
    else:
        held, enforced = before.compiled, before.enforced
    if held is None and state.network_known and state.applied is not None and state.applied.given:
        held = compiler(task_of_applied_plan(fabric, state.applied, state.unknown, learn, state.desired.spread_keys))
        enforced = state.applied.epoch
    return dataclasses.replace(state, compiled=held, enforced=enforced)


def _learns(intended: Fabric | None, surveyed: Survey) -> bool:
    """Return whether leaves send unknown ARP to the controller: true if hosts can appear that no rule knows."""
    return intended is None or bool(surveyed.hosts_unplaced)


def _listening(
    compiler: Compiler,
    surveyed: Survey,
    network: NetworkState,
    desired: DesiredState,
    before: ControllerState,
    network_known: bool,
    next_epoch: int,
) -> ControllerState:
    """Return the state while no host has been heard: no switch's role is known, so all of them only listen."""
    changed = network.switches != before.unknown or desired.mode != before.desired.mode
    epoch = next_epoch if changed else before.epoch
    return ControllerState(
        epoch=epoch,
        survey=surveyed,
        network=network,
        desired=desired,
        applied=before.applied,
        compiled=None if desired.mode == "frozen" else compiler(EnforcementTask(None, unknown=network.switches)),
        enforced=epoch,
        unknown=network.switches,
        network_known=network_known,
        saved_fabric=before.saved_fabric,
        last_known_fabric=before.last_known_fabric,
    )
