"""Jobs for switches with little room, and what a controller says of refused rules."""

from __future__ import annotations

from typing import Any

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from tests.fake_switch.fabric import FakeFabric
from tests.rig.both_kinds import Setup
from tests.rig.controller import Controller

FABRIC = clos(2, 2, 4)


SENDERS = [host.name for host in FABRIC.hosts if host.leaf == "leaf1"]


RECEIVERS = [host.name for host in FABRIC.hosts if host.leaf == "leaf2"]


def flows(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"flows": [{"src": src, "dst": dst, "bytes": 1000} for src, dst in pairs]}


SMALL = flows((SENDERS[0], RECEIVERS[0]), (RECEIVERS[0], SENDERS[0]))


LARGE = flows(*((a, b) for a in SENDERS for b in RECEIVERS), (RECEIVERS[1], SENDERS[1]))


def with_job(
    setup: Setup, fabric: Fabric, name: str, job: dict[str, Any], *options: str
) -> tuple[FakeFabric, Controller, tuple[str, int]]:
    """Return fake switches that hold the plan of a job, their controller, and where switches reach it."""
    controller, address = setup.controller(fabric, *options)
    fakes = setup.fakes(fabric, address)
    fakes.wait_connected()
    settled(controller)
    assert controller.put(f"/v1/jobs/{name}", job).status == 201
    settled(controller)
    return fakes, controller, address


def plan(controller: Controller) -> dict[str, Any]:
    answer = controller.get("/v1/plan")
    assert answer.status == 200
    return dict(answer.body)


def settled(controller: Controller) -> None:
    """Wait until the newest plan is active."""
    controller.wait_for(
        "the newest plan is active", lambda: controller.plan_is_active() and not plan(controller)["waits_for"]
    )


def reasons(controller: Controller) -> str:
    return "; ".join(controller.get("/healthz").body["reasons"])


def refused(controller: Controller) -> dict[str, Any]:
    """What is told of the refusal, once there is one and its event."""
    controller.wait_for("it is refused", lambda: plan(controller)["refused"] is not None)
    return dict(plan(controller)["refused"])
