"""A real controller on fake switches: a failed spine costs a job what its QPs allow, and no option is needed."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.model.packets.flow_ports import UDP
from controller.model.packets.port_numbers import ROCE_PORT
from tests.fake_switch.fabric import FakeFabric
from tests.rig.both_kinds import Setup
from tests.rig.controller import Controller
from tests.rig.waiting import eventually

SPINES = HOSTS = 32
FABRIC = clos(SPINES, 2, HOSTS)
FAILED = "spine7"


def job(qps: int) -> dict[str, Any]:
    """Every host of both leaves sends to the other leaf at full rate."""
    names = FABRIC.host_names
    pairs = [(names[i], names[(i + HOSTS) % len(names)]) for i in range(len(names))]
    return {"qps": qps, "flows": [{"src": a, "dst": b, "bytes": 64 * 10**6} for a, b in pairs]}


def seconds(controller: Controller) -> float:
    (collective,) = controller.get("/v1/plan").body["plan"]["collectives"]
    return float(collective["seconds"])


def is_planned_over(controller: Controller, spine: str) -> bool:
    flows = controller.get("/v1/plan").body["plan"]["flows"]
    return any(spine in link.split("->") for flow in flows for path in flow["paths"] for link in path["links"])


def fullest_uplink(controller: Controller, fakes: FakeFabric) -> int | None:
    """Return the number of QPs on the uplink that has most of them.

    Each QP that /v1/routes lists is followed through the rules that switches hold. ``None``: the packets of some QP do
    not arrive yet.
    """
    packets: list[tuple[dict[str, int | str], str]] = []
    targets: list[str] = []
    for host in FABRIC.hosts:
        for flow in controller.get(f"/v1/routes?host={host.name}").body["flows"]:
            (piece,) = flow["pieces"]
            packet = {
                "eth_type": 0x0800,
                "ip_proto": UDP,
                "ipv4_src": host.ip,
                "ipv4_dst": flow["dst_ip"],
                "udp_src": piece["udp_src"],
                "udp_dst": ROCE_PORT,
            }
            packets.append((packet, host.name))
            targets.append(flow["dst"])
    walks = fakes.walks(packets)
    if [walk.host for walk in walks] != targets:
        return None
    hops = ([hop.switch for hop in walk.hops] for walk in walks)
    carried = Counter((leaf, spine) for leaf, spine, _ in hops)
    return max(carried.values())


def settled(controller: Controller, fakes: FakeFabric, most: int, *, over_failed: bool) -> None:
    """Wait until a plan over the failed spine, or one that avoids it, is active, with ``most`` QPs on an uplink."""

    def is_active() -> bool:
        # In this order: a plan that is active when it is asked for may be replaced before its flows are read.
        return is_planned_over(controller, FAILED) == over_failed and controller.plan_is_active()

    controller.wait_for("the plan is active", is_active)
    eventually(
        lambda: fullest_uplink(controller, fakes) == most,
        f"no uplink has more than {most} QPs",
        shown=lambda: fullest_uplink(controller, fakes),
    )


@pytest.mark.parametrize("qps", [4, 8, 16])
def test_a_failed_spine_of_32_costs_a_running_job_one_qp_of_an_uplink(setup: Setup, qps: int) -> None:
    controller, address = setup.controller(FABRIC)
    fakes = setup.fakes(FABRIC, address)
    fakes.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    assert controller.put("/v1/jobs/rings", job(qps)).status == 201
    settled(controller, fakes, qps, over_failed=True)
    healthy = seconds(controller)
    fakes.kill_switch(FAILED)
    most = math.ceil(HOSTS * qps / (SPINES - 1))
    settled(controller, fakes, most, over_failed=False)
    assert seconds(controller) == pytest.approx(healthy * most / qps)
