"""From a plan and a mode to the rules of every switch."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.config import Settings
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.traffic import Collective, Int64Array, Traffic
from controller.planning.drain import drain, without_drained
from controller.routing import Previous
from controller.service.draft import Draft, Memory
from controller.service.wanted import Wanted
from controller.southbound.base import compile_base, compile_listening
from controller.southbound.compilers import compile_rules
from controller.southbound.labels import LabelBlock
from controller.southbound.rules import RuleSet
from controller.southbound.wire import Wire, on_wire


def wire_for(fabric: Fabric, wanted: Wanted, draft: Draft, memory: Memory | None) -> Wire:
    """What hosts should send: the pieces of every flow, their paths and source ports.

    In mode ``frozen`` that is what they were told before, whatever is planned now: with ``source_port`` enforcement
    another port would be another path.

    Args:
        memory: the plan that switches hold.

    Raises:
        InputError: two hosts have more flows than there are ports for them.
    """
    assignment, enforcement = draft.plan.assignment, wanted.enforcement
    if wanted.mode == "frozen" and memory is not None:
        enforcement = memory.enforcement
        assignment = _as_remembered(draft.traffic, assignment, memory.paths.on(fabric))
    return on_wire(fabric, draft.traffic, assignment, enforcement)


def enforced_rules(
    settings: Settings,
    fabric: Fabric,
    wanted: Wanted,
    draft: Draft,
    wire: Wire,
    unknown: frozenset[int],
    learn: bool,
) -> RuleSet:
    """The rules of a plan (mode ``planned``), or those without any (``ecmp``).

    Args:
        wire: of the draft.
        unknown: switches without a role; they listen.
        learn: send ARP for unknown targets to the controller.

    Raises:
        InputError: the labels do not suffice for the fabric.
    """
    if wanted.mode == "ecmp":
        rules = compile_base(fabric, usable=draft.usable, ecmp_action=settings.ecmp_action, learn=learn)
    else:
        rules = compile_rules(
            wanted.enforcement,
            fabric,
            draft.traffic,
            wire,
            usable=draft.usable,
            ecmp_action=settings.ecmp_action,
            learn=learn,
            labels=LabelBlock(settings.label_base),
        )
    return RuleSet({**compile_listening(unknown).switches, **rules.switches})


def rules_of_memory(
    settings: Settings, fabric: Fabric, memory: Memory, unknown: frozenset[int], learn: bool
) -> RuleSet:  # fmt: skip
    """The rules that switches were given with a plan which is only remembered, whatever the network is like now."""
    then = _as_it_was(fabric, memory.links_down)
    usable = without_drained(then, drain(then, memory.drained))
    if memory.enforced:
        traffic, assignment = _flows(memory.paths.on(then))
        rules = compile_rules(
            memory.enforcement,
            then,
            traffic,
            on_wire(then, traffic, assignment, memory.enforcement),
            usable=usable,
            ecmp_action=settings.ecmp_action,
            learn=learn,
            labels=LabelBlock(settings.label_base),
        )
    else:
        rules = compile_base(then, usable=usable, ecmp_action=settings.ecmp_action, learn=learn)
    return RuleSet({**compile_listening(unknown).switches, **rules.switches})


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


def _flows(paths: Previous) -> tuple[Traffic, Assignment]:
    """Remembered rows as flows: a switch knows no more of them than addresses and ports."""
    units, flow = np.unique(paths.key, return_inverse=True)
    n = len(units)
    traffic = Traffic(
        src=(units >> 40).astype(np.int32),
        dst=((units >> 16) & 0xFFFFFF).astype(np.int32),
        bytes=np.ones(n, dtype=np.int64),
        collective=np.zeros(n, dtype=np.int32),
        number=np.arange(n, dtype=np.int32),
        udp_src=(units & 0xFFFF).astype(np.int32),
        collectives=(Collective("remembered", "all"),),
    )
    return traffic, _pieces(flow.reshape(-1), paths.path, paths.share)


def _as_remembered(traffic: Traffic, assignment: Assignment, paths: Previous) -> Assignment:
    """The assignment with the remembered paths, live or not, of the flows that have some."""
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
    """Remembered rows, ascending by flow, without the repeats: flows that share a port have a row each, all alike."""
    _, first = np.unique(np.stack([flow, path]), axis=1, return_index=True)
    rows = np.sort(first)
    return Assignment(flow[rows].astype(np.int32), path[rows], share[rows])
