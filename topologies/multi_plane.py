r"""Planes for Mininet's own ``mn``: hosts with an interface in each of several leaf-spine networks.

    mn --custom topologies/multi_plane.py --topo multiplane,planes=2,spines=2,leaves=2,hosts=2 \
       --switch ovs,datapath=user,protocols=OpenFlow13 --controller remote

It is wired as ``controller.model.files.clos.clos`` says with ``planes``: interface ``h1-eth0`` is port ``h1.p1``,
and so on.
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


class PlaneIntf(TCIntf):
    """The interface of ``topologies/clos.py``: a given MTU, no IPv6 traffic, computed checksums."""

    def config(self, mtu: int | None = None, **params: Any) -> Any:
        """Disable IPv6 and checksum offload, and set the MTU if one is given."""
        self.cmd(f"echo 1 > /proc/sys/net/ipv6/conf/{self.name}/disable_ipv6")
        if mtu is not None:
            self.cmd(f"ip link set dev {self.name} mtu {mtu}")
        params.setdefault("txo", False)
        return super().config(**params)


class PlaneHost(Host):
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


class MultiPlane(Topo):
    """``planes`` unconnected networks of ``leaves`` x ``spines`` switches; ``hosts`` on each leaf of a plane.

    Switches are numbered plane by plane. A leaf's ports: hosts first, then its uplinks spine by spine; a spine's ports:
    leaf by leaf.
    """

    def build(self, planes: int = 2, spines: int = 2, leaves: int = 2, hosts: int = 2, parallel: int = 1) -> None:
        """Add the switches, hosts and cables; raise ``ValueError`` for sizes out of range."""
        self._check(planes=planes, spines=spines, leaves=leaves, hosts=hosts, parallel=parallel)
        self._switches(planes * leaves, planes * spines)
        reached = [range(plane * leaves + 1, (plane + 1) * leaves + 1) for plane in range(planes)]
        for leaf in range(1, leaves + 1):
            for port in range(1, hosts + 1):
                places = [(plane * leaves + leaf, port) for plane in range(planes)]
                self._host(f"h{(leaf - 1) * hosts + port}", places, reached)
        for plane in range(planes):
            for i in range(leaves):
                for j in range(spines):
                    ends = f"leaf{plane * leaves + i + 1}", f"spine{plane * spines + j + 1}"
                    for p in range(1, parallel + 1):
                        ports = hosts + j * parallel + p, i * parallel + p
                        self._cable(ends[0], ports[0], ends[1], ports[1], mtu=SWITCH_MTU)

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
        self.addHost(name, cls=PlaneHost, ip=f"{addresses[0]}/8", ports=ports)
        for number, (leaf, port) in enumerate(places):
            mac = f"02:00:00:{leaf >> 8:02x}:{leaf & 0xFF:02x}:{port:02x}"
            self._cable(name, number, f"leaf{leaf}", port, mtu=HOST_MTU, addr1=mac)

    def _cable(self, node1: str, port1: int, node2: str, port2: int, mtu: int, **options: Any) -> None:
        self.addLink(
            node1,
            node2,
            port1=port1,
            port2=port2,
            cls1=PlaneIntf,
            cls2=PlaneIntf,
            params1={"mtu": mtu},
            params2={"mtu": SWITCH_MTU},
            **options,
        )

    @staticmethod
    def _check(**sizes: int) -> None:
        for name, value in sizes.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"multiplane: {name}={value!r}: must be an integer of at least 1")
        planes, spines, leaves, hosts, parallel = sizes.values()
        if hosts > HOSTS_PER_PREFIX:
            raise ValueError(f"multiplane: hosts={hosts}: a leaf's /24 prefix holds at most {HOSTS_PER_PREFIX} hosts")
        for name, many in (("leaves", leaves), ("spines", spines)):
            if planes * many > MOST_LEAVES:
                raise ValueError(f"multiplane: planes={planes}, {name}={many}: there are ids for {MOST_LEAVES} {name}")
        longest = [
            f"h{leaves * hosts}-eth{planes - 1}",
            f"leaf{planes * leaves}-eth{hosts + spines * parallel}",
            f"spine{planes * spines}-eth{leaves * parallel}",
        ]
        for name in longest:
            if len(name) > LONGEST_NAME:
                raise ValueError(f"multiplane: too large: Linux does not allow the interface name {name}")


topos = {"multiplane": MultiPlane}
