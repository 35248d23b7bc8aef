"""A running controller, Open vSwitch as nodes of segments, and an agent for each host."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document
from controller.model.packets.port_numbers import ROCE_PORT
from emulation.controller_process import controller_command
from emulation.lab import Lab
from emulation.lab.agents import relay_to_controller
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.host_agent import HostAgent
from tests.rig.real_controller import free_ports
from tests.rig.routers.router_lab import LabOfHosts
from tests.rig.routers.router_world import PACKETS, SEND
from tests.rig.switches.counting_relay import CountingRelay
from tests.rig.waiting import eventually

LOOKS, LOOK_SECONDS = 25, 0.2
"""Counters of switches are about a second late."""


class CarrierWorld(LabOfHosts):
    """Switches with hosts, a controller, and an agent for each host (none of which runs yet).

    Attributes:
        switches: the lab.
        relay: between switches and controller.
    """

    def __init__(self, fabric: Fabric, lab: Lab, relay: CountingRelay, controller: Controller) -> None:
        """Store the parts."""
        super().__init__(fabric, lab)
        self.switches, self.relay, self.controller = lab, relay, controller
        self.agents: dict[str, HostAgent] = {}

    def get(self, target: str) -> Any:
        return self.controller.ask("GET", target).body

    def well(self) -> None:
        """Wait until the newest plan is active, and all is well."""

        def active() -> bool:
            plan = self.get("/v1/plan")
            newest, now = plan.get("computed"), plan.get("active")
            return bool(newest and now and newest["epoch"] == now["epoch"])

        eventually(active, "the plan is active", shown=lambda: self.get("/healthz"))
        eventually(lambda: self.get("/healthz")["status"] == "ok", "all is well", shown=lambda: self.get("/healthz"))

    def mode(self, **wanted: str) -> None:
        """Change the mode or the enforcement, and wait until it holds."""
        done = self.controller.ask("PUT", "/v1/mode", wanted)
        assert done.status == 200, done.body
        self.well()

    def planned(self) -> set[str]:
        """The links between switches of the job's flow."""
        (flow,) = self.get("/v1/plan")["plan"]["flows"]
        return set(flow["paths"][0]["links"][1:-1])

    def sent(self) -> dict[str, int]:
        """How many packets switches have sent over each link between switches."""
        counters = {switch.name: self.switches.port_counters(switch.name) for switch in self.fabric.switches}
        sent = {}
        for name, cable in zip(self.fabric.cable_names, self.fabric.cables, strict=True):
            up = self.fabric.first_cable_link + 2 * self.fabric.cable_names.index(name)
            for link, switch, port in ((up, cable.lower, cable.lower_port), (up + 1, cable.upper, cable.upper_port)):
                assert port is not None
                sent[self.fabric.link_ids[link]] = counters[switch][port].tx_packets
        return sent

    def port(self) -> int:
        """The source port of the job's flow."""
        return int(self.get("/v1/routes?host=h1")["flows"][0]["pieces"][0]["udp_src"])

    def taken(self, port: int) -> set[str]:
        """The links between switches that packets of the job's flow take."""
        links: set[str] = set()
        ips = {host.name: host.ip for host in self.fabric.hosts}
        to_leaf = self.fabric.hosts[self.fabric.host_index["h3"]].leaf

        def arrive() -> bool:
            before = self.sent()
            self.run("h1", sys.executable, "-c", SEND, ips["h1"], ips["h3"], str(port), str(ROCE_PORT), str(PACKETS))

            for _ in range(LOOKS):
                time.sleep(LOOK_SECONDS)
                links.clear()
                links.update(link for link, last in self.sent().items() if last - before[link] >= PACKETS)
                if any(link.split("->")[1].startswith(to_leaf) for link in links):
                    return True
            # Some were lost, just after something has changed: they are sent again.
            return False

        eventually(arrive, "packets arrive", shown=lambda: links)
        return links


@contextmanager
def carrier_world(
    bench: Bench, folder: Path, fabric: Fabric, *agent_options: str, options: Sequence[str] = ()
) -> Iterator[CarrierWorld]:
    """Start the switches and the controller."""
    file = folder / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(fabric)))
    openflow, port = free_ports(2)
    options = ["--fabric", str(file), "--enforcement", "srv6", *options]
    with ExitStack() as stack:
        relay = stack.enter_context(CountingRelay(("127.0.0.1", openflow)))
        lab = bench.lab(fabric, controller=relay.address, carriers=True, out=folder / "lab")
        command = controller_command(*options, openflow_port=openflow, http_port=port)
        for name in fabric.host_names:
            stack.enter_context(relay_to_controller(lab, name, ("127.0.0.1", port)))
        controller = bench.controller(*command[1:], http_port=port)
        world = CarrierWorld(fabric, lab, relay, controller)
        for name in fabric.host_names:
            world.agents[name] = HostAgent(world, name, folder / name, *agent_options)
            stack.callback(world.agents[name].close)
        yield world
