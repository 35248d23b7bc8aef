"""A lab of Linux routers, as tests of single hosts, agents and carriers use it: by indices, and in packets."""

from __future__ import annotations

import subprocess
from ipaddress import IPv6Address
from pathlib import Path

from controller.model.fabric import Fabric
from controller.southbound.srv6.carriers import path_ids
from controller.southbound.srv6.segment_ids import IdRange
from emulation.lab import routers
from emulation.lab.agents import AgentLab
from emulation.lab.routers import FORMAT, Routing

__all__ = ["FORMAT", "RouterLab"]


class LabOfHosts:
    """The hosts of a fabric, and commands that run there.

    Attributes:
        fabric: the fabric.
        lab: the lab of the emulation.
    """

    def __init__(self, fabric: Fabric, lab: AgentLab) -> None:
        """Use a lab."""
        self.fabric, self.lab = fabric, lab

    def interface(self, host: str) -> str:
        """Return the interface of a host."""
        (end,) = self.lab.wiring.ends(host)
        return end.interface

    def inside(self, name: str, *command: str) -> list[str]:
        """Return what runs a command in the namespace of a host (or router)."""
        return ["mnexec", "-a", str(self.lab.node(name).pid), *command]

    def run(self, name: str, *command: str) -> str:
        """Run a command in the namespace of a host (or router), and return what it prints.

        Raises:
            RuntimeError: it has failed.
        """
        done = subprocess.run(self.inside(name, *command), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name}: {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


class RouterLab(LabOfHosts):
    """The routers and hosts of a fabric; use it in a ``with`` statement.

    Hosts take packets out of carriers, also where no agent runs.

    """

    lab: routers.RouterLab

    def __init__(
        self, fabric: Fabric, folder: Path, routing: Routing = "static", path_addresses: str | None = None
    ) -> None:
        """Start it."""
        super().__init__(fabric, routers.RouterLab(fabric, out=folder, routing=routing, path_addresses=path_addresses))
        self.ids, self.addresses = self.lab.ids, self.lab.addresses
        self.lab.start()
        try:
            for host, name in enumerate(fabric.host_names):
                own_id, interface = self.ids.prefix(IdRange(self.ids.host(host))), self.interface(name)
                is_ipv6 = fabric.hosts[host].ip_version == 6
                decapsulate = "End.DT6 table 255" if is_ipv6 else "End.DX4 nh4 0.0.0.0"
                for line in (
                    f"sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.{interface}.seg6_enabled=1",
                    f"ip -6 route add {own_id} encap seg6local action {decapsulate} dev {interface}",
                    f"ip sr tunsrc set {self.source(host)}",
                ):
                    self.run(name, *line.split())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RouterLab:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove all."""
        self.close()

    def close(self) -> None:
        """Remove all."""
        self.lab.stop()

    def ends(self, link: int) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return where a directed link begins and ends: name and interface."""
        near, far = self.lab.ends(link)
        return (near.node, near.interface), (far.node, far.interface)

    def steer(self, src: int, dst: int, path: int) -> None:
        """Make a host send everything to another one over a path."""
        carrier = self.ids.address(path_ids(self.ids, src, dst, path))
        sender, receiver = self.fabric.hosts[src], self.fabric.hosts[dst]
        ways = f"encap seg6 mode encap.red segs {carrier} dev {self.interface(sender.name)} src {sender.ip}"
        self.run(sender.name, "ip", "route", "replace", f"{receiver.ip}/32", *ways.split())

    def sent(self) -> list[int]:
        """Return how many packets were sent over each directed link."""
        return self.lab.sent("packets")

    def source(self, host: int) -> IPv6Address:
        """Return the address of a host's end of its link."""
        return self.addresses.of_link(host, far=False).ip

    def address_of(self, link: int) -> IPv6Address:
        """Return the address at the near end of a directed link."""
        return self.addresses.of_link(link, far=False).ip

    def cut(self, cable: int) -> None:
        """Take the upper end of a cable down, so that the lower end has no carrier."""
        self._set_upper_end(cable, up=False)

    def mend(self, cable: int) -> None:
        """Take it up again; its addresses and routes had gone with it."""
        self._set_upper_end(cable, up=True)

    def _set_upper_end(self, cable: int, *, up: bool) -> None:
        upper = self.lab.wiring.wire(self.fabric.cable_names[cable]).b
        self.lab.set_port(upper.node, upper.port, up)
