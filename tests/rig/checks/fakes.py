"""A controller with fake switches."""

from __future__ import annotations

from controller.model.fabric import Fabric
from tests.fake_switch.fabric import FakeFabric
from tests.rig.both_kinds import Setup
from tests.rig.controller import Controller


def started(setup: Setup, fabric: Fabric, *options: str, **switches: int) -> tuple[FakeFabric, Controller]:
    """Fake switches that all hold the plan of a controller."""
    controller, address = setup.controller(fabric, *options)
    fakes = setup.fakes(fabric, address, **switches)
    fakes.wait_connected()
    settled(controller)
    return fakes, controller


def settled(controller: Controller) -> None:
    """Wait until nothing is amiss and the newest plan is active."""
    controller.wait_for("all is well", lambda: controller.is_well() and controller.plan_is_active())


def names(fabric: Fabric) -> list[str]:
    return [switch.name for switch in fabric.switches]


def sent(fakes: FakeFabric) -> int:
    """Flow-mods and group-mods that switches were sent."""
    return sum(len(fakes.flow_mods(name)) + len(fakes.group_mods(name)) for name in names(fakes.fabric))
