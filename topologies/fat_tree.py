r"""A Clos fabric of three layers for Mininet's own ``mn``, wired as ``controller.model.files.pod_clos.pod_clos`` says.

    mn --custom topologies/fat_tree.py --topo fattree,k=4 \
       --switch ovs,datapath=user,protocols=OpenFlow13 --controller remote

``k`` makes the fat tree of switches with k ports (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008); without it, the sizes
are given one by one: ``--topo fattree,pods=4,leaves=2,aggs=2,cores=2,hosts=2``.

``mn`` runs this file alone by ``exec`` in Debian's Python, where only the standard library and Mininet are available.
So the conventions (names, ids, addresses, ports) and the interface are repeated here; a test compares them.
"""

from typing import Any

from mininet.link import TCIntf
from mininet.topo import Topo

HOST_MTU = 4500
"""RoCE's largest payload is 4,096 bytes; its headers fit in the rest."""

SWITCH_MTU = 9000
"""A switch port must also hold the labels that segment routing pushes onto a full packet."""

LONGEST_NAME = 15
"""Linux gives an interface's name sixteen bytes, and the last one is zero."""

AGG_DPID = 1 << 16
CORE_DPID = 131072
HOSTS_PER_PREFIX = 250


class FatTreeIntf(TCIntf):
    """The interface of ``topologies/clos.py``: a given MTU, no IPv6 traffic, computed checksums."""

    def config(self, mtu: int | None = None, **params: Any) -> Any:
        """Disable IPv6 and checksum offload, and set the MTU if one is given."""
        self.cmd(f"echo 1 > /proc/sys/net/ipv6/conf/{self.name}/disable_ipv6")
        if mtu is not None:
            self.cmd(f"ip link set dev {self.name} mtu {mtu}")
        params.setdefault("txo", False)
        return super().config(**params)


class FatTree(Topo):
    """Pods of ``leaves`` and ``aggs`` switches, ``cores`` for each aggregation switch of a pod, ``hosts`` on each leaf.

    Ports of a leaf: hosts first, then its uplinks; of an aggregation switch: leaf by leaf, then core by core; of a
    core: pod by pod. Core c (from 0) is connected to aggregation switch c mod ``aggs`` of each pod.
    """

    def build(self, k: int = 0, pods: int = 4, leaves: int = 2, aggs: int = 2, cores: int = 2, hosts: int = 2) -> None:
        """Add the switches, hosts and cables; raise ``ValueError`` for sizes out of range."""
        if k:
            if not isinstance(k, int) or k < 2 or k % 2:
                raise ValueError(f"fattree: k={k!r}: must be an even number of ports")
            pods, leaves, aggs, cores, hosts = k, k // 2, k // 2, k // 2, k // 2
        self._check(pods=pods, leaves=leaves, aggs=aggs, cores=cores, hosts=hosts)
        self._switches("leaf", pods * leaves, 0)
        self._switches("agg", pods * aggs, AGG_DPID)
        self._switches("core", aggs * cores, CORE_DPID)
        subnets = 1 << (leaves - 1).bit_length()
        for pod in range(pods):
            for leaf in range(leaves):
                self._leaf(pod * leaves + leaf + 1, (pod + 1) * subnets + leaf, hosts)
                for agg in range(aggs):
                    ends = (f"leaf{pod * leaves + leaf + 1}", hosts + agg + 1, f"agg{pod * aggs + agg + 1}", leaf + 1)
                    self._cable(*ends, mtu=SWITCH_MTU)
            for agg in range(aggs):
                for core in range(cores):
                    ends = (f"agg{pod * aggs + agg + 1}", leaves + core + 1, f"core{core * aggs + agg + 1}", pod + 1)
                    self._cable(*ends, mtu=SWITCH_MTU)

    def _switches(self, role: str, number: int, before: int) -> None:
        for i in range(1, number + 1):
            self.addSwitch(f"{role}{i}", dpid=f"{before + i:016x}")

    def _leaf(self, leaf: int, subnet: int, hosts: int) -> None:
        for n in range(1, hosts + 1):
            name, high, low = f"h{(leaf - 1) * hosts + n}", subnet >> 8, subnet & 0xFF
            self.addHost(name, ip=f"10.{high}.{low}.{n}/8", mac=f"02:00:00:{high:02x}:{low:02x}:{n:02x}")
            self._cable(name, 0, f"leaf{leaf}", n, mtu=HOST_MTU)

    def _cable(self, node1: str, port1: int, node2: str, port2: int, mtu: int) -> None:
        self.addLink(
            node1,
            node2,
            port1=port1,
            port2=port2,
            cls1=FatTreeIntf,
            cls2=FatTreeIntf,
            params1={"mtu": mtu},
            params2={"mtu": SWITCH_MTU},
        )

    @staticmethod
    def _check(**sizes: int) -> None:
        for name, value in sizes.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"fattree: {name}={value!r}: must be an integer of at least 1")
        pods, leaves, aggs, cores, hosts = (sizes[name] for name in ("pods", "leaves", "aggs", "cores", "hosts"))
        if hosts > HOSTS_PER_PREFIX:
            raise ValueError(f"fattree: hosts={hosts}: a leaf's /24 prefix holds at most {HOSTS_PER_PREFIX} hosts")
        if (pods + 1) << (leaves - 1).bit_length() > 1 << 16:
            raise ValueError(f"fattree: pods={pods}, leaves={leaves}: 10.0.0.0/8 has too few /24 prefixes")
        longest = [
            f"leaf{pods * leaves}-eth{hosts + aggs}",
            f"agg{pods * aggs}-eth{leaves + cores}",
            f"core{aggs * cores}-eth{pods}",
        ]
        for name in longest:
            if len(name) > LONGEST_NAME:
                raise ValueError(f"fattree: too large: Linux does not allow the interface name {name}")


topos = {"fattree": FatTree}
