"""Port agents on Linux routers that send no ICMP messages: packets that routers sample show which paths ports take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.packets.port_numbers import ROCE_PORT
from tests.rig.bench import Bench
from tests.rig.host_agent import PortAgent
from tests.rig.real_controller import free_ports
from tests.rig.routers.answering_routers import addressed
from tests.rig.routers.probed_routers import answers
from tests.rig.routers.router_sampler import RouterSampler
from tests.rig.routers.router_world import SEND, RouterWorld, router_world
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

ONE_IN = 20
PACKETS = 300
"""Of a flow."""

Flows = dict[tuple[str, str], tuple[int | None, frozenset[int]]]


def mute(world: RouterWorld) -> None:
    """Have no router send any ICMP message."""
    table = "table ip mute { chain out { type filter hook output priority 0; ip protocol icmp drop; }; }"
    for router in world.lab.lab.wiring.routers:
        world.lab.run(router, "nft", table)


def flows_of(world: RouterWorld, fabric: Fabric) -> Flows:
    index = fabric.link_index
    return {
        (host, flow["dst"]): (piece["udp_src"], frozenset(index[link] for link in piece["links"]))
        for host in fabric.host_names
        for flow in world.get(f"/v1/routes?host={host}")["flows"]
        for piece in flow["pieces"]
    }


def routed(world: RouterWorld, flows: Flows) -> dict[tuple[str, str], frozenset[int]]:
    """The links that the kernels of routers choose for the ports of flows."""
    asked = [(*ends, port) for ends, (port, _) in flows.items() if port is not None]
    return {(src, dst): frozenset(links) for (src, dst, _), links in world.lab.lab.routed(asked).items()}


def ports_of(world: RouterWorld) -> dict[str, dict[str, Any]]:
    return {row["host"]: row["ports"] or {} for row in world.get("/v1/hosts")["hosts"]}


def send(world: RouterWorld, flows: Flows) -> None:
    """Send packets of all flows at once."""
    numbers = str(ROCE_PORT), str(PACKETS)
    sending = [
        subprocess.Popen(
            world.lab.inside(src, sys.executable, "-c", SEND, world.ip(src), world.ip(dst), str(port), *numbers)
        )
        for (src, dst), (port, _) in flows.items()
    ]
    assert [each.wait() for each in sending] == [0] * len(sending)


@pytest.mark.parametrize("fabric", [clos(2, 2, 2), pod_clos(2, 1, 2, 2, 2)], ids=["two layers", "three layers"])
def test_plans_become_active_by_samples_where_routers_send_no_icmp(
    bench: Bench, tmp_path: Path, fabric: Fabric
) -> None:
    place = addressed(fabric)
    names = place.host_names
    (sflow,) = free_ports(1)
    options = (
        *("--enforcement", "probed_port", "--probe-seconds", "0.5", "--probe-sampled-rate", "400"),
        *("--sflow-listen", f"127.0.0.1:{sflow}", "--sflow-agents", "127.0.0.1", "--learning", "off"),
    )
    with router_world(bench, tmp_path, place, agent=PortAgent, controller_options=options) as world:
        eventually(lambda: answers(world.lab, names[0], names[-1]), "hosts reach each other")
        mute(world)
        with RouterSampler(world.lab, ("127.0.0.1", sflow), ONE_IN) as sampler:
            world.controller.wait_for("it has a plan", lambda: world.controller.get("/v1/plan").status == 200)
            rows = [{"src": name, "dst": names[(n + 2) % len(names)], "bytes": 10**9} for n, name in enumerate(names)]
            assert world.controller.ask("PUT", "/v1/jobs/shifts", {"name": "shifts", "flows": rows}).status == 201
            for agent in world.agents.values():
                agent.start()
            world.well()
            flows = flows_of(world, place)
            assert len(flows) == len(names)
            assert all(port is not None for port, _ in flows.values())
            assert routed(world, flows) == {ends: links for ends, (_, links) in flows.items()}
            assert {row["sampled"] for row in ports_of(world).values()} == {1}
            assert all(sampler.sampled[switch.name] for switch in place.layers[-1])
            traced = world.get("/v1/trace")["flows"]
            assert {(flow["how"], flow["differs"]) for flow in traced} == {("samples", False)}

            # Packets of flows take just the planned links.
            before = world.lab.sent()
            send(world, flows)
            planned = [sum(link in links for _, links in flows.values()) for link in range(place.n_links)]

            def arrived() -> bool:
                carried = [now - then for now, then in zip(world.lab.sent(), before, strict=True)]
                return all(many >= PACKETS * of for many, of in zip(carried, planned, strict=True))

            eventually(arrived, "packets arrive")

            # A port that leads elsewhere is seen by samples, too.
            world.lab.lab.hash_by(5)
            wrong = {ends for ends, links in routed(world, flows).items() if links != flows[ends][1]}
            assert wrong
            eventually(
                lambda: sum(row["moved"] for row in ports_of(world).values()) >= len(wrong),
                "agents have seen that ports lead elsewhere",
                shown=lambda: world.get("/v1/hosts"),
            )

            def right() -> bool:
                now = flows_of(world, place)
                return world.active() and routed(world, now) == {ends: links for ends, (_, links) in now.items()}

            eventually(right, "all flows are on their paths again", shown=lambda: world.get("/v1/hosts"))
