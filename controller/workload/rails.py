"""The NICs of its servers by which a flow of a collective leaves and enters.

A server's GPUs reach all of its NICs over NVLink; the NIC by which a rank's data crosses the network is a choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Fabric, IntArray
from controller.model.job import CollectiveCall
from controller.model.traffic import Int64Array
from controller.workload.collectives import Flows, is_pairwise


class FlowHosts(NamedTuple):
    """[F] host that sends, [F] host that receives."""

    src: IntArray
    dst: IntArray


@dataclass(frozen=True, eq=False)
class Servers:
    """The NICs of each server, as arrays.

    Attributes:
        server: [H] number of the server of each host.
        rail: [H] rail of each host.
    """

    server: IntArray
    rail: IntArray
    _key: Int64Array
    _host: IntArray

    @staticmethod
    def of(fabric: Fabric) -> Servers:
        """List the NICs of all servers of a fabric."""
        number: dict[str, int] = {}
        server = np.array([number.setdefault(host.server, len(number)) for host in fabric.hosts], dtype=np.int32)
        rail = np.array([host.rail for host in fabric.hosts], dtype=np.int32)
        key, host = np.unique(_key(server, rail), return_index=True)
        return Servers(server, rail, key, host.astype(np.int32))

    def on_rail(self, host: IntArray, rail: IntArray) -> IntArray:
        """Return each host [F] if it is on its rail or its server has no NIC there, else the server's first NIC there.

        The state of a NIC does not matter: a flow stays the same after a failure.
        """
        if (self.rail[host] == rail).all():
            return host
        wanted = _key(self.server[host], rail)
        at = np.minimum(np.searchsorted(self._key, wanted), len(self._key) - 1)
        moves = (self.rail[host] != rail) & (self._key[at] == wanted)
        return np.where(moves, self._host[at], host).astype(np.int32)


def own_ends(servers: Servers, src: IntArray, dst: IntArray, pxn: NDArray[np.bool_]) -> FlowHosts:
    """Return the hosts between which flows of collectives without channels run.

    A flow ends at the receiving rank's own NIC. It begins at the sending rank's own or, with PXN, at that of its server
    which is on the rail of the other end (NVIDIA, "Doubling all2all Performance with NVIDIA Collective Communication
    Library 2.12", 2022): it then passes no other rail's leaf.

    Args:
        servers: the NICs of each server.
        src: [F] host of the sending rank.
        dst: [F] host of the receiving rank.
        pxn: [F] whether the data may leave its server by another NIC than its rank's.
    """
    on_rail = servers.on_rail(src, servers.rail[dst])
    return FlowHosts(on_rail if on_rail is src else np.where(pxn, on_rail, src).astype(np.int32), dst)


def channel_ends(servers: Servers, hosts: IntArray, call: CollectiveCall, flows: Flows, *, pxn: bool) -> FlowHosts:
    """Return the hosts between which the flows of a collective with channels run, channel after channel.

    Channel k leaves and enters a server by the (k mod m)-th of the m NICs that the collective's ranks have there, in
    order of rails, as NCCL's search gives each channel its own NIC (src/graph/search.cc). Data that is for one
    rank alone takes another NIC than its rank's only with PXN.

    Args:
        servers: the NICs of each server.
        hosts: [n] host of each rank.
        call: the collective.
        flows: the flows of one channel.
        pxn: whether data may leave a server by another NIC than its rank's.
    """
    channels = call.channels or 1
    if is_pairwise(call) and not pxn:
        return FlowHosts(np.tile(hosts[flows.src], channels), np.tile(hosts[flows.dst], channels))
    by_rail = hosts[np.lexsort((hosts, servers.rail[hosts], servers.server[hosts]))]
    _, group, count = np.unique(servers.server[hosts], return_inverse=True, return_counts=True)
    start = np.cumsum(count) - count
    channel = np.arange(channels)[:, np.newaxis]

    def nic(rank: IntArray) -> IntArray:
        on = group.reshape(-1)[rank]
        chosen: IntArray = by_rail[start[on] + channel % count[on]].reshape(-1)
        return chosen

    return FlowHosts(nic(flows.src), nic(flows.dst))


def _key(server: IntArray, rail: IntArray) -> NDArray[np.int64]:
    key: NDArray[np.int64] = (server.astype(np.int64) << 32) | rail.astype(np.int64)
    return key
