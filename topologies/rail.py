r"""Rails for Mininet's own ``mn``: servers whose NICs are each on a leaf of their own.

    mn --custom topologies/rail.py --topo rail,rails=2,spines=2,leaves=4,servers=2 \
       --switch ovs,datapath=user,protocols=OpenFlow13 --controller remote

It is wired as ``controller.model.files.clos.clos`` says with ``rail_optimized`` and ``rails`` NICs a server (NVIDIA DGX
SuperPOD reference architecture, compute fabric): interface ``node1-eth0`` is the NIC of ``node1`` on rail 0, and so on.
A server sends to a NIC by its own one on the same rail, as NCCL does with PXN, unless the source address is given.

``mn`` runs this file alone by ``exec`` in Debian's Python, where only the standard library and Mininet are available.
So the conventions (names, ids, addresses, ports) and the interface are repeated here; a test compares them.
"""

from typing import Any

from mininet.link import TCIntf
from mininet.node import Host
from mininet.topo import Topo

HOST_MTU = 4500
"""RoCE's largest payload is 4,096 bytes; its headers fit in the rest."""

SWITCH_MTU = 9000
"""A switch port must also hold the labels that segment routing pushes onto a full packet."""

LONGEST_NAME = 15
"""Linux gives an interface's name sixteen bytes, and the last one is zero."""

FIRST_SPINE_DPID = 65537
MOST_LEAVES = FIRST_SPINE_DPID - 2
"""Leaves and spines have a datapath id each, and leaves a /24 prefix."""

HOSTS_PER_PREFIX = 250


class RailIntf(TCIntf):
    """The interface of ``topologies/clos.py``: a given MTU, no IPv6 traffic, computed checksums."""

    def config(self, mtu: int | None = None, **params: Any) -> Any:
        """Disable IPv6 and checksum offload, and set the MTU if one is given."""
        self.cmd(f"echo 1 > /proc/sys/net/ipv6/conf/{self.name}/disable_ipv6")
        if mtu is not None:
            self.cmd(f"ip link set dev {self.name} mtu {mtu}")
        params.setdefault("txo", False)
        return super().config(**params)


class RailHost(Host):
    """A host with several interfaces, each with an address of its own and the prefixes that it reaches.

    A packet from a stated address leaves by that address's interface (``ping -I ADDRESS``), any other one by the
    interface that reaches its destination's prefix. An interface answers ARP for its own address only.
    """

    def config(self, ports: tuple[tuple[str, tuple[str, ...]], ...] = (), **params: Any) -> Any:
        """Set the address of each of ``ports`` (address, prefixes) and its routes."""
        result = super().config(**params)
        self.cmd("sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2")
        for number, (address, prefixes) in enumerate(ports):
            interface = f"{self.name}-eth{number}"
            if number:
                self.cmd(f"ip address add {address}/32 dev {interface}")
            for prefix in prefixes:
                self.cmd(f"ip route add {prefix} dev {interface} src {address}")
            self.cmd(f"ip route add 10.0.0.0/8 dev {interface} src {address} table {number + 1}")
            self.cmd(f"ip rule add from {address} table {number + 1}")
        return result


class Rail(Topo):
    """``leaves`` x ``spines`` switches; each ``rails`` leaves in a row have ``servers`` servers with a NIC on each.

    A leaf's ports: its NICs first, then its uplinks spine by spine; a spine's ports: leaf by leaf.
    """

    def build(self, rails: int = 2, spines: int = 2, leaves: int = 4, servers: int = 2, parallel: int = 1) -> None:
        """Add the switches, servers and cables; raise ``ValueError`` for sizes out of range."""
        self._check(rails=rails, spines=spines, leaves=leaves, servers=servers, parallel=parallel)
        self._switches(leaves, spines)
        reached = [range(rail + 1, leaves + 1, rails) for rail in range(rails)]
        for group in range(leaves // rails):
            for port in range(1, servers + 1):
                places = [(group * rails + rail + 1, port) for rail in range(rails)]
                self._host(f"node{group * servers + port}", places, reached)
        for i in range(leaves):
            for j in range(spines):
                for p in range(1, parallel + 1):
                    ports = servers + j * parallel + p, i * parallel + p
                    self._cable(f"leaf{i + 1}", ports[0], f"spine{j + 1}", ports[1], mtu=SWITCH_MTU)

    def _switches(self, leaves: int, spines: int) -> None:
        for i in range(1, leaves + 1):
            self.addSwitch(f"leaf{i}", dpid=f"{i:016x}")
        for j in range(1, spines + 1):
            self.addSwitch(f"spine{j}", dpid=f"{FIRST_SPINE_DPID + j - 1:016x}")

    def _host(self, name: str, places: list[tuple[int, int]], reached: list[range]) -> None:
        """Add a host by the (leaf, port) of each of its interfaces and the leaves that each of them reaches."""
        prefixes = [tuple(f"10.{leaf >> 8}.{leaf & 0xFF}.0/24" for leaf in leaves) for leaves in reached]
        addresses = [f"10.{leaf >> 8}.{leaf & 0xFF}.{port}" for leaf, port in places]
        ports = tuple(zip(addresses, prefixes, strict=True))
        self.addHost(name, cls=RailHost, ip=f"{addresses[0]}/8", ports=ports)
        for number, (leaf, port) in enumerate(places):
            mac = f"02:00:00:{leaf >> 8:02x}:{leaf & 0xFF:02x}:{port:02x}"
            self._cable(name, number, f"leaf{leaf}", port, mtu=HOST_MTU, addr1=mac)

    def _cable(self, node1: str, port1: int, node2: str, port2: int, mtu: int, **options: Any) -> None:
        self.addLink(
            node1,
            node2,
            port1=port1,
            port2=port2,
            cls1=RailIntf,
            cls2=RailIntf,
            params1={"mtu": mtu},
            params2={"mtu": SWITCH_MTU},
            **options,
        )

    @staticmethod
    def _check(**sizes: int) -> None:
        for name, value in sizes.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"rail: {name}={value!r}: must be an integer of at least 1")
        rails, spines, leaves, servers, parallel = sizes.values()
        if leaves % rails:
            raise ValueError(f"rail: leaves={leaves}: must be a multiple of rails={rails}")
        if servers > HOSTS_PER_PREFIX:
            raise ValueError(f"rail: servers={servers}: a leaf's /24 prefix holds at most {HOSTS_PER_PREFIX} NICs")
        for name, many in (("leaves", leaves), ("spines", spines)):
            if many > MOST_LEAVES:
                raise ValueError(f"rail: {name}={many}: there are ids for {MOST_LEAVES} {name}")
        longest = [
            f"node{leaves // rails * servers}-eth{rails - 1}",
            f"leaf{leaves}-eth{servers + spines * parallel}",
            f"spine{spines}-eth{leaves * parallel}",
        ]
        for name in longest:
            if len(name) > LONGEST_NAME:
                raise ValueError(f"rail: too large: Linux does not allow the interface name {name}")


topos = {"rail": Rail}
