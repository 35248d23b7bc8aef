"""Linux routers and hosts in network namespaces that have no name, configured by exported scripts.

A namespace is held by a process that sleeps, and ends with it.
"""

from __future__ import annotations

import json
import os
import subprocess
from ipaddress import IPv6Address
from pathlib import Path

from controller.model.fabric import Fabric
from controller.southbound.srv6.carriers import path_ids
from controller.southbound.srv6.formats import FORMATS
from controller.southbound.srv6.router_configuration import CableAddresses, router_configurations
from controller.southbound.srv6.segment_ids import IdRange, SegmentIds
from tests.rig.waiting import eventually

FORMAT = FORMATS["iproute2"]


class RouterLab:
    """The routers and hosts of a fabric; use it in a ``with`` statement."""

    def __init__(self, fabric: Fabric, folder: Path) -> None:
        """Start the namespaces, connect them, and configure them."""
        self.fabric, self._folder = fabric, folder
        self.ids, self.addresses = SegmentIds(fabric), CableAddresses(fabric)
        names = [*(switch.name for switch in fabric.switches), *fabric.host_names]
        self._holders = {name: subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for name in names}
        try:
            # Until then, what is made for a holder would be made here.
            here = os.readlink("/proc/self/ns/net")
            spaces = [self.namespace(name) for name in names]
            eventually(lambda: here not in map(os.readlink, spaces), "all have their namespaces")
            self._connect()
            for router in router_configurations(self.ids, FORMAT.interface):
                script = folder / f"{router.name}{FORMAT.suffix}"
                script.write_text(FORMAT.write(router))
                self.run(router.name, "sh", str(script))
            for host in range(fabric.n_hosts):
                self._configure_host(host)
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
        """End the namespaces."""
        for holder in self._holders.values():
            holder.kill()
            holder.wait()

    def namespace(self, name: str) -> Path:
        """Return the file of the namespace of a router or host."""
        return Path(f"/proc/{self._holders[name].pid}/ns/net")

    def inside(self, name: str, *command: str) -> list[str]:
        """Return what runs a command in the namespace of a router or host."""
        return ["nsenter", f"--net={self.namespace(name)}", *command]

    def run(self, name: str, *command: str) -> str:
        """Run a command in the namespace of a router or host, and return what it prints.

        Raises:
            RuntimeError: it has failed.
        """
        done = subprocess.run(self.inside(name, *command), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name}: {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def ends(self, link: int) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return where a directed link begins and ends: name and interface."""
        fabric, first = self.fabric, self.fabric.first_cable_link
        if link < first:
            host = fabric.hosts[link % fabric.n_hosts]
            near, far = (host.name, "eth0"), (host.leaf, FORMAT.interface(host.leaf, host.port or 0))
            return (near, far) if link < fabric.n_hosts else (far, near)
        cable = fabric.cables[(link - first) // 2]
        near = (cable.lower, FORMAT.interface(cable.lower, cable.lower_port or 0))
        far = (cable.upper, FORMAT.interface(cable.upper, cable.upper_port or 0))
        return (near, far) if (link - first) % 2 == 0 else (far, near)

    def steer(self, src: int, dst: int, path: int) -> None:
        """Make a host send everything to another one over a path."""
        carrier = self.ids.address(path_ids(self.ids, src, dst, path))
        sender, receiver = self.fabric.hosts[src], self.fabric.hosts[dst]
        encap = f"encap seg6 mode encap.red segs {carrier}"
        self.run(sender.name, *f"ip route replace {receiver.ip}/32 {encap} dev eth0 src {sender.ip}".split())

    def sent(self) -> list[int]:
        """Return how many packets were sent over each directed link."""
        counts = {}
        for name in self._holders:
            for row in json.loads(self.run(name, "ip", "-j", "-s", "link")):
                counts[name, row["ifname"]] = int(row["stats64"]["tx"]["packets"])
        return [counts[self.ends(link)[0]] for link in range(self.fabric.n_links)]

    def source(self, host: int) -> IPv6Address:
        """Return the address of a host's end of its link."""
        return self.addresses.of_link(host, far=False).ip

    def address_of(self, link: int) -> IPv6Address:
        """Return the address at the near end of a directed link."""
        return self.addresses.of_link(link, far=False).ip

    def cut(self, cable: int) -> None:
        """Take the upper end of a cable down, so that the lower end has no carrier."""
        name, interface = self.ends(self.fabric.first_cable_link + 2 * cable)[1]
        self.run(name, "ip", "link", "set", interface, "down")

    def _connect(self) -> None:
        for link in (*range(self.fabric.n_hosts), *range(self.fabric.first_cable_link, self.fabric.n_links, 2)):
            (name, interface), (other, far) = self.ends(link)
            pair = f"ip link add {interface} netns {self._holders[name].pid} mtu 9000 type veth"
            peer = f"peer name {far} netns {self._holders[other].pid} mtu 9000"
            subprocess.run([*pair.split(), *peer.split()], check=True)

    def _configure_host(self, host: int) -> None:
        own = self.fabric.hosts[host]
        near, far = self.addresses.of_link(host, far=False), self.addresses.of_link(host, far=True).ip
        own_id = self.ids.prefix(IdRange(self.ids.host(host)))
        for line in (
            "sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.eth0.seg6_enabled=1",
            "ip link set lo up",
            f"ip -6 address add {near} dev eth0 nodad",
            "ip link set eth0 up",
            f"ip address add {own.ip}/32 dev eth0",
            f"ip -6 route add default via {far} dev eth0",
            f"ip -6 route add {own_id} encap seg6local action End.DX4 nh4 0.0.0.0 dev eth0",
            f"ip sr tunsrc set {near.ip}",
        ):
            self.run(own.name, *line.split())
