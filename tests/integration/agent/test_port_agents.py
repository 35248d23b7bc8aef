"""A controller and port agents on Linux routers that hash: packets with learned ports load links exactly as planned."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.verbs.layout import gid_of
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.packets.port_numbers import ROCE_PORT
from tests.rig.bench import Bench
from tests.rig.host_agent import PortAgent
from tests.rig.routers.answering_routers import addressed, addressed_ipv6
from tests.rig.routers.probed_routers import answers, unlimited
from tests.rig.routers.router_world import SEND, RouterWorld, router_world
from tests.rig.waiting import eventually
from tests.unit.strategies import with_ipv6, with_routers

pytestmark = pytest.mark.switches

PACKETS = 300
"""Of a flow. A link carries fewer of others (neighbour discovery, probes) in the meantime, also on a busy machine."""
CONTROLLER = (
    *("--enforcement", "probed_port", "--probe-burst", "50", "--probe-rate", "10000"),
    *("--probe-router-rate", "1000000", "--probe-seconds", "0.5"),
)


class Sent(NamedTuple):
    """A flow as /v1/routes has it: its sender, its receiver, its port, and its links."""

    src: str
    dst: str
    port: int | None
    links: frozenset[int]


class PortWorld(NamedTuple):
    """Routers that hash, a controller, and port agents."""

    world: RouterWorld
    fabric: Fabric

    def flows(self) -> list[Sent]:
        index = self.fabric.link_index
        return [
            Sent(host, flow["dst"], piece["udp_src"], frozenset(index[link] for link in piece["links"]))
            for host in self.fabric.host_names
            for flow in self.world.get(f"/v1/routes?host={host}")["flows"]
            for piece in flow["pieces"]
        ]

    def ready(self) -> list[Sent]:
        """Wait until the newest plan is active; return its flows."""
        self.world.well()
        flows: list[Sent] = []

        def known() -> bool:
            flows[:] = self.flows()
            return bool(flows) and all(flow.port is not None for flow in flows)

        eventually(known, "all flows have ports", shown=lambda: (flows, self.world.get("/v1/hosts")))
        return flows

    def routed(self, flows: list[Sent]) -> dict[tuple[str, str], frozenset[int]]:
        """The links that the kernels of routers choose for the packets of flows."""
        asked = [(flow.src, flow.dst, flow.port) for flow in flows if flow.port is not None]
        taken = self.world.lab.lab.routed(asked)
        return {(src, dst): frozenset(links) for (src, dst, _), links in taken.items()}

    def planned(self, flows: list[Sent]) -> dict[tuple[str, str], frozenset[int]]:
        return {(flow.src, flow.dst): flow.links for flow in flows}

    def packets(self, flows: list[Sent]) -> list[int]:
        """Send packets of all flows; return of how many flows each link has carried all packets."""
        lab = self.world.lab
        before = lab.lab.sent("packets")
        for flow in flows:
            ends = self.world.ip(flow.src), self.world.ip(flow.dst)
            lab.run(flow.src, sys.executable, "-c", SEND, *ends, *map(str, (flow.port, ROCE_PORT, PACKETS)))
        last = {self.fabric.n_hosts + self.fabric.host_index[flow.dst] for flow in flows}
        carried: list[int] = []

        def arrived() -> bool:
            carried[:] = [now - then for now, then in zip(lab.lab.sent("packets"), before, strict=True)]
            return all(carried[link] >= PACKETS for link in last)

        eventually(arrived, "packets arrive", shown=lambda: carried)
        return [count // PACKETS for count in carried]

    def ports_of(self, host: str) -> dict[str, Any]:
        (row,) = (row for row in self.world.get("/v1/hosts")["hosts"] if row["host"] == host)
        ports: dict[str, Any] = row["ports"]
        return ports


@contextmanager
def port_world(bench: Bench, folder: Path, fabric: Fabric, job: dict[str, Any]) -> Iterator[PortWorld]:
    with router_world(bench, folder, fabric, agent=PortAgent, controller_options=CONTROLLER) as world:
        unlimited(world.lab)
        eventually(lambda: answers(world.lab, "h1", fabric.host_names[-1]), "hosts reach each other")
        world.controller.wait_for("it has a plan", lambda: world.controller.get("/v1/plan").status == 200)
        assert world.controller.ask("PUT", f"/v1/jobs/{job['name']}", job).status == 201
        yield PortWorld(world, fabric)


def shifts(fabric: Fabric, by: int) -> dict[str, Any]:
    """A job in which each host sends to one of another leaf."""
    names = fabric.host_names
    flows = [{"src": name, "dst": names[(n + by) % len(names)], "bytes": 10**9} for n, name in enumerate(names)]
    return {"name": "shifts", "flows": flows}


@pytest.mark.parametrize(
    ("place", "by"),
    [(addressed_ipv6(with_ipv6(with_routers(clos(2, 2, 2)))), 2), (addressed(pod_clos(2, 1, 2, 2, 2)), 2)],
    ids=["two layers, IPv6", "three layers"],
)
def test_links_carry_what_is_planned_and_flows_keep_their_ports_when_all_start_again(
    bench: Bench, tmp_path: Path, place: Fabric, by: int
) -> None:
    with port_world(bench, tmp_path, place, shifts(place, by)) as here:
        world = here.world
        assert world.waits_for() == sorted(place.host_names)
        assert all(flow.port is None for flow in here.flows())
        for host, agent in world.agents.items():
            agent.start("--verbs", str(tmp_path / host))
        flows = here.ready()
        assert len(flows) == place.n_hosts
        # The same ports are in the tables for RDMA programs.
        tables = {host: (tmp_path / host / "ports").read_bytes() for host in place.host_names}
        for flow in flows:
            ends = b"".join(gid_of(ip_address(world.ip(host))) for host in (flow.src, flow.dst))
            row = re.escape(ends) + b".." + re.escape(struct.pack("<H", flow.port))
            assert re.search(row, tables[flow.src], re.DOTALL)
        if not len(place.ipv6_hosts):
            assert here.routed(flows) == here.planned(flows)
        assert here.packets(flows) == [sum(link in flow.links for flow in flows) for link in range(place.n_links)]
        traced = world.get("/v1/trace")["flows"]
        assert {(flow["how"], flow["differs"], flow["why"]) for flow in traced} == {("probes", False, "")}
        assert [flow["real"] for flow in traced] == [flow["planned"] for flow in traced]
        rows = {host: here.ports_of(host) for host in place.host_names}
        assert {(row["state"], row["planned"], row["known"], row["moved"]) for row in rows.values()} == {
            ("active", 1, 1, 0)
        }
        # An agent that starts again takes the ports that it has had.
        for agent in world.agents.values():
            assert agent.end() == 0
            agent.start()
        logs = [agent.log for agent in world.agents.values()]
        eventually(
            lambda: all(log.read_text().count("ports are active") == 2 for log in logs), "they have checked them"
        )
        # Only agents that run count further.
        counted = {host: here.ports_of(host)["probes"] for host in place.host_names}
        eventually(
            lambda: all(here.ports_of(host)["probes"] != count for host, count in counted.items()),
            "the new agents have reported",
        )
        assert here.ready() == flows


def test_a_flow_whose_port_leads_elsewhere_gets_another_one_and_that_is_told(bench: Bench, tmp_path: Path) -> None:
    place = addressed(clos(4, 2, 2))
    with port_world(bench, tmp_path, place, shifts(place, 2)) as here:
        for agent in here.world.agents.values():
            agent.start()
        before = here.ready()
        here.world.lab.lab.hash_by(5)
        wrong = {pair for pair, links in here.routed(before).items() if links != here.planned(before)[pair]}
        assert wrong

        def moved() -> int:
            return sum(here.ports_of(host)["moved"] for host in place.host_names)

        eventually(lambda: moved() >= len(wrong), "the agents have seen it", shown=moved)
        after = here.ready()
        eventually(lambda: here.routed(here.ready()) == here.planned(before), "all flows are on their paths again")
        assert here.planned(after) == here.planned(before)
        assert moved() == len(wrong)


def test_plans_avoid_paths_without_a_port_where_all_routers_have_one_seed(bench: Bench, tmp_path: Path) -> None:
    place = addressed(pod_clos(2, 1, 2, 2, 2))
    with port_world(bench, tmp_path, place, shifts(place, 2)) as here:
        lab = here.world.lab
        for router in lab.lab.wiring.routers:
            lab.run(router, "sysctl", "-qw", "net.ipv4.fib_multipath_hash_seed=77")
        for agent in here.world.agents.values():
            agent.start()
        flows = here.ready()
        assert here.routed(flows) == here.planned(flows)
        assert len({flow.links for flow in flows}) == len(flows)


def test_routers_that_do_not_answer_are_told_and_nothing_is_claimed(bench: Bench, tmp_path: Path) -> None:
    place = addressed(clos(2, 2, 1))
    with port_world(bench, tmp_path, place, shifts(place, 1)) as here:
        lab = here.world.lab
        for router in lab.lab.wiring.routers:
            # Of a second: a router that answers once in an hour.
            lab.run(router, "sysctl", "-qw", "net.ipv4.icmp_ratelimit=3600000", "net.ipv4.icmp_msgs_per_sec=0")
        for agent in here.world.agents.values():
            agent.start()
        # Each host finds out by itself: under load, one does so seconds before the other.
        eventually(
            lambda: (
                {row["ports"] and row["ports"]["state"] for row in here.world.get("/v1/hosts")["hosts"]} == {"unknown"}
            ),
            "every host says that it knows no ports",
            shown=lambda: here.world.get("/v1/hosts"),
        )
        eventually(
            lambda: any("do not answer" in reason for reason in here.world.get("/healthz")["reasons"]),
            "it is told that routers do not answer",
            shown=lambda: here.world.get("/healthz"),
        )
        assert not here.world.active()
        assert all(flow.port is None for flow in here.flows())
        assert {flow["how"] for flow in here.world.get("/v1/trace")["flows"]} == {"none"}
