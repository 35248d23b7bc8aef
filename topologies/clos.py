r"""A two-tier Clos fabric for Mininet's own ``mn``, wired exactly as ``controller.model.files.clos.clos`` says.

    mn --custom topologies/clos.py --topo clos,spines=4,leaves=4,hosts=4[,parallel=1] \
       --switch ovs,datapath=user,protocols=OpenFlow13 --controller remote

``mn`` runs this file by ``exec`` in Debian's Python, where only the standard library and Mininet are available.
So the conventions (names, ids, addresses, ports) are repeated here; a test compares them with the controller's.
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

FIRST_SPINE_DPID = 65537
HOSTS_PER_PREFIX = 250


class FabricIntf(TCIntf):
    """An interface with a given MTU, without IPv6 traffic, and with checksums that are computed.

    A userspace switch copies packets unchanged: without ``tx off`` TCP's checksums would never be filled in.
    It is a ``TCIntf``, so ``mn --link tc,bw=20`` works as well.
    """

    def config(self, mtu: int | None = None, **params: Any) -> Any:
        """Disable IPv6 and checksum offload, and set the MTU if one is given."""
        self.cmd(f"echo 1 > /proc/sys/net/ipv6/conf/{self.name}/disable_ipv6")
        if mtu is not None:
            self.cmd(f"ip link set dev {self.name} mtu {mtu}")
        params.setdefault("txo", False)
        return super().config(**params)


class Clos(Topo):
    """``leaves`` x ``spines`` switches, ``hosts`` on each leaf, ``parallel`` cables between each leaf and spine.

    A leaf's ports: hosts first, then its uplinks spine by spine; a spine's ports: leaf by leaf.
    """

    def build(self, spines: int = 4, leaves: int = 4, hosts: int = 4, parallel: int = 1) -> None:
        """Add the switches, hosts and cables; raise ``ValueError`` for sizes out of range."""
        self._check(spines=spines, leaves=leaves, hosts=hosts, parallel=parallel)
        for i in range(1, leaves + 1):
            self.addSwitch(f"leaf{i}", dpid=f"{i:016x}")
        for j in range(1, spines + 1):
            self.addSwitch(f"spine{j}", dpid=f"{FIRST_SPINE_DPID + j - 1:016x}")
        for i in range(1, leaves + 1):
            for n in range(1, hosts + 1):
                name = f"h{(i - 1) * hosts + n}"
                self.addHost(
                    name,
                    ip=f"10.{i >> 8}.{i & 0xFF}.{n}/8",
                    mac=f"02:00:00:{i >> 8:02x}:{i & 0xFF:02x}:{n:02x}",
                )
                self._cable(name, 0, f"leaf{i}", n, mtu=HOST_MTU)
            for j in range(1, spines + 1):
                for p in range(1, parallel + 1):
                    leaf_port = hosts + (j - 1) * parallel + p
                    spine_port = (i - 1) * parallel + p
                    self._cable(f"leaf{i}", leaf_port, f"spine{j}", spine_port, mtu=SWITCH_MTU)

    def _cable(self, node1: str, port1: int, node2: str, port2: int, mtu: int) -> None:
        self.addLink(
            node1,
            node2,
            port1=port1,
            port2=port2,
            cls1=FabricIntf,
            cls2=FabricIntf,
            params1={"mtu": mtu},
            params2={"mtu": SWITCH_MTU},
        )

    @staticmethod
    def _check(**sizes: int) -> None:
        for name, value in sizes.items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"clos: {name}={value!r}: must be an integer of at least 1")
        if sizes["hosts"] > HOSTS_PER_PREFIX:
            raise ValueError(
                f"clos: hosts={sizes['hosts']}: a leaf's /24 prefix holds at most {HOSTS_PER_PREFIX} hosts"
            )
        if sizes["leaves"] > 0xFFFF:
            raise ValueError(f"clos: leaves={sizes['leaves']}: there are addresses for at most 65535 leaves")
        longest = [
            f"leaf{sizes['leaves']}-eth{sizes['hosts'] + sizes['spines'] * sizes['parallel']}",
            f"spine{sizes['spines']}-eth{sizes['leaves'] * sizes['parallel']}",
        ]
        for name in longest:
            if len(name) > LONGEST_NAME:
                raise ValueError(f"clos: too large: Linux does not allow the interface name {name}")


topos = {"clos": Clos}
