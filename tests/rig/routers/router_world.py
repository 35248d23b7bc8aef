"""A running controller, Linux routers, and an agent for each host."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document
from controller.model.packets.port_numbers import ROCE_PORT
from emulation.controller_process import controller_command
from emulation.lab.agents import relay_to_controller
from emulation.lab.routers import Routing
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.host_agent import HostAgent
from tests.rig.real_controller import free_ports
from tests.rig.routers.router_lab import RouterLab
from tests.rig.waiting import eventually

PORT = 50001
PACKETS = 200
JOB = {"name": "pairs", "flows": [{"src": "h1", "dst": "h3", "bytes": 10**9, "udp_src": PORT}]}
SEND = """
import socket, sys
src, dst, port, dst_port, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
family = socket.AF_INET6 if ":" in src else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as sender:
    sender.bind((src, port))
    for _ in range(count):
        sender.sendto(b"x" * 100, (dst, dst_port))
"""
"""Sends UDP packets; its arguments are the source, the destination, their ports, and how many."""


class RouterWorld(NamedTuple):
    """Routers with hosts, a controller, and an agent for each host (none of which runs yet)."""

    lab: RouterLab
    controller: Controller
    agents: dict[str, HostAgent]

    def get(self, target: str) -> Any:
        return self.controller.ask("GET", target).body

    def active(self) -> bool:
        """Whether the newest plan is active: all agents that it needs have confirmed it."""
        plan = self.get("/v1/plan")
        newest, active = plan.get("computed"), plan.get("active")
        return bool(newest and active and newest["epoch"] == active["epoch"])

    def planned(self) -> set[int]:
        """The links of the job's flow."""
        (flow,) = self.get("/v1/plan")["plan"]["flows"]
        return {self.lab.fabric.link_index[link] for link in flow["paths"][0]["links"]}

    def taken(self, to: str | None = None, port: int = PORT) -> set[int]:
        """The links that packets of the flow take, once the receiver's leaf knows where the receiver is."""
        links: set[int] = set()
        fabric = self.lab.fabric

        def arrive() -> bool:
            before = self.lab.sent()
            ends = self.ip("h1"), to or self.ip("h3")
            self.lab.run("h1", sys.executable, "-c", SEND, *ends, *map(str, (port, ROCE_PORT, PACKETS)))
            now = enumerate(zip(self.lab.sent(), before, strict=True))
            links.clear()
            links.update(link for link, (last, first) in now if last - first >= PACKETS)
            return fabric.n_hosts + fabric.host_index["h3"] in links

        eventually(arrive, "packets arrive", shown=lambda: links)
        return links

    def ip(self, host: str) -> str:
        return self.lab.fabric.hosts[self.lab.fabric.host_index[host]].ip

    def waits_for(self) -> list[str]:
        return sorted(self.get("/v1/plan")["waits_for"])

    def begin(self, job: Mapping[str, Any] = JOB) -> None:
        """Push a job."""
        controller = self.controller
        controller.wait_for("it has a plan", lambda: controller.get("/v1/plan").status == 200)
        assert controller.ask("PUT", f"/v1/jobs/{job['name']}", job).status == 201

    def well(self) -> None:
        """Wait until the newest plan is active, and all is well."""
        eventually(self.active, "the plan is active", shown=lambda: self.get("/healthz"))
        eventually(lambda: self.get("/healthz")["status"] == "ok", "all is well", shown=lambda: self.get("/healthz"))


@contextmanager
def router_world(
    bench: Bench,
    folder: Path,
    fabric: Fabric,
    *agent_options: str,
    routing: Routing = "static",
    agent: type[HostAgent] = HostAgent,
    controller_options: Sequence[str] = ("--enforcement", "srv6"),
    path_addresses: str | None = None,
) -> Iterator[RouterWorld]:
    """Start the routers and the controller, which hears their routes if they have BGP."""
    file = folder / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(fabric)))
    openflow, port = free_ports(2)
    options = ["--fabric", str(file), *controller_options]
    with ExitStack() as stack:
        lab = stack.enter_context(RouterLab(fabric, folder, routing, path_addresses))
        if routing == "bgp":
            options += ["--bgp-sessions", str(lab.lab.bgp_sessions)]
        command = controller_command(*options, openflow_port=openflow, http_port=port)
        for name in fabric.host_names:
            stack.enter_context(relay_to_controller(lab.lab, name, ("127.0.0.1", port)))
        controller = bench.controller(*command[1:], http_port=port)
        agents = {name: agent(lab, name, folder / name, *agent_options) for name in fabric.host_names}
        for each in agents.values():
            stack.callback(each.close)
        yield RouterWorld(lab, controller, agents)
