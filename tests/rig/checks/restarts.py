"""What holds over a restart: the rules that bridges hold, and a controller that is back."""

from __future__ import annotations

from typing import Any

from controller.model.fabric import Fabric
from emulation.lab import Lab
from tests.rig.controller import Controller

JOB = {
    "matrix": {
        "hosts": ["h1", "h2", "h3", "h4"],
        "bytes": [[0, 0, 9, 8], [0, 0, 7, 9], [9, 9, 0, 0], [5, 9, 0, 0]],
    }
}


def switches(fabric: Fabric) -> list[str]:
    return [switch.name for switch in fabric.switches]


def dumps(lab: Lab, fabric: Fabric) -> dict[str, set[tuple[Any, ...]]]:
    """Of each switch, its rules with their cookies, which tell the epoch in which they were written."""
    return {
        name: {(flow.table, flow.priority, flow.match, flow.actions, flow.cookie) for flow in lab.flows(name)}
        for name in switches(fabric)
    }


def check_rules(lab: Lab, fabric: Fabric, rules: dict[str, set[tuple[Any, ...]]]) -> None:
    """Check that no switch has lost, gained or rewritten a rule since they were read; else tell which."""
    now = dumps(lab, fabric)
    changes = [
        f"{name} {what} {rule}"
        for name in rules
        for what, changed in (("lost", rules[name] - now[name]), ("gained", now[name] - rules[name]))
        for rule in sorted(changed)
    ]
    assert not changes, "\n".join(changes)


def packets(lab: Lab, fabric: Fabric) -> dict[str, int]:
    return {name: sum(flow.packets for flow in lab.flows(name)) for name in switches(fabric)}


def came_back(controller: Controller) -> None:
    controller.wait_for("the plan is active", controller.plan_is_active)
