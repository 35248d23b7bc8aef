"""Expected rules of switches, compiled from the controller's answers over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from controller.model.assignment import LOCAL, UNROUTABLE
from controller.model.fabric import Fabric
from controller.model.traffic import ANY_PORT, Collective, Traffic
from controller.planning.drain import drain, without_drained
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.registry import compile_rules
from controller.southbound.rules.rule_set import RuleSet
from tests.rig.controller import Controller


def expected(controller: Controller, fabric: Fabric, enforcement: str, *, drained: Iterable[str] = ()) -> RuleSet:
    """The rules of every switch for what ``/v1/routes`` tells the hosts.

    Args:
        fabric: as it is now: what has failed is down.
    """
    names = {name: path for path, name in enumerate(fabric.path_names)}
    src: list[int] = []
    dst: list[int] = []
    rows: list[tuple[int, int, float, int]] = []
    for number, host in enumerate(fabric.hosts):
        for flow in controller.get(f"/v1/routes?host={host.name}").body["flows"]:
            target = fabric.host_index[flow["dst"]]
            none = LOCAL if fabric.host_leaf[number] == fabric.host_leaf[target] else UNROUTABLE
            for piece in flow["pieces"]:
                path = names[piece["path"]] if piece["path"] is not None else none
                rows.append((len(src), path, piece["share"], piece["udp_src"] or ANY_PORT))
            src.append(number)
            dst.append(target)
    column: list[Any] = list(zip(*rows, strict=True)) or [(), (), (), ()]
    flow_, path_, port_ = (np.array(column[i], dtype=np.int32) for i in (0, 1, 3))
    wire = FlowEncoding(flow_, path_, np.array(column[2], dtype=np.float64), port_)
    traffic = Traffic(
        np.array(src, dtype=np.int32),
        np.array(dst, dtype=np.int32),
        np.ones(len(src), dtype=np.int64),
        np.zeros(len(src), dtype=np.int32),
        np.arange(len(src), dtype=np.int32),
        np.zeros(len(src), dtype=np.int32),
        (Collective("as told", "all"),),
    )
    usable = without_drained(fabric, drain(fabric, drained))
    return compile_rules(enforcement, fabric, traffic, wire, usable=usable)


def differences(held: RuleSet, wanted: RuleSet) -> dict[int, str]:
    """Where switches hold something else, in few words, by datapath id."""
    found = {}
    for dpid in wanted:
        have, want = held[dpid], wanted[dpid]
        if have != want:
            missing, strange = want.rules.keys() - have.rules.keys(), have.rules.keys() - want.rules.keys()
            changed = [key for key in want.rules.keys() & have.rules.keys() if want.rules[key] != have.rules[key]]
            groups = len(want.groups.keys() ^ have.groups.keys())
            found[dpid] = (
                f"missing {sorted(missing)[:2]}, strange {sorted(strange)[:2]}, {changed[:2]}, {groups} groups"
            )
    return found
