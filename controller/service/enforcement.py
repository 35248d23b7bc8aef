"""From a plan and a mode to the rules of every switch."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.config import Settings
from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.traffic import Collective, Traffic
from controller.planning.drain import drain, without_drained
from controller.rest.backend import Mode
from controller.routing import Previous
from controller.service.draft import Draft, Memory
from controller.southbound.base import compile_base, compile_listening
from controller.southbound.per_flow import compile_per_flow
from controller.southbound.rules import RuleSet
from controller.southbound.wire import on_wire


def enforced_rules(
    settings: Settings, fabric: Fabric, mode: Mode, draft: Draft, unknown: frozenset[int], learn: bool
) -> RuleSet:
    """The rules of a plan (mode ``planned``), or those without any (``ecmp``).

    Args:
        unknown: switches without a role; they listen.
        learn: send ARP for unknown targets to the controller.
    """
    if mode == "ecmp":
        rules = compile_base(fabric, usable=draft.usable, ecmp_action=settings.ecmp_action, learn=learn)
    else:
        rules = compile_per_flow(
            fabric,
            draft.traffic,
            on_wire(fabric, draft.traffic, draft.plan.assignment, "per_flow"),
            usable=draft.usable,
            ecmp_action=settings.ecmp_action,
            learn=learn,
        )
    return RuleSet({**compile_listening(unknown).switches, **rules.switches})


def rules_of_memory(
    settings: Settings, fabric: Fabric, memory: Memory, unknown: frozenset[int], learn: bool
) -> RuleSet:  # fmt: skip
    """The rules that switches were given with a plan which is only remembered, whatever the network is like now."""
    then = _as_it_was(fabric, memory.links_down)
    usable = without_drained(then, drain(then, memory.drained))
    if memory.enforced:
        traffic, assignment = _flows(then, memory.paths.on(then))
        wire = on_wire(then, traffic, assignment, "per_flow")
        rules = compile_per_flow(
            then, traffic, wire, usable=usable, ecmp_action=settings.ecmp_action, learn=learn
        )  # fmt: skip
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


def _flows(fabric: Fabric, paths: Previous) -> tuple[Traffic, Assignment]:
    """Remembered rows as flows: a switch knows no more of them than addresses and port."""
    key = paths.key
    usable = np.flatnonzero(fabric.up_link[fabric.host_leaf[key >> 40], paths.path] >= 0)
    key, path = key[usable], paths.path[usable]
    n = len(key)
    traffic = Traffic(
        src=(key >> 40).astype(np.int32),
        dst=((key >> 16) & 0xFFFFFF).astype(np.int32),
        bytes=np.ones(n, dtype=np.int64),
        collective=np.zeros(n, dtype=np.int32),
        number=np.arange(n, dtype=np.int32),
        udp_src=(key & 0xFFFF).astype(np.int32),
        collectives=(Collective("remembered", "all"),),
    )
    return traffic, Assignment.single(path)
