"""Writes NCCL logs of clusters that never were, in the forms of several versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

LINE = 128  # as far as NCCL prints a channel's order


@dataclass(frozen=True)
class Style:
    """How a version prints."""

    version: str
    connection: str  # what stands before a connection
    bus: bool  # GPUs by bus instead of by device
    start: bool
    id: bool
    function: str = ""
    graph: bool = True  # whether GRAPH is on
    parent_first: bool = False  # in a tree


STYLES = (
    Style("2.8.4", "Channel {c:02d}", bus=True, start=False, id=False),
    Style("2.12.12", "Channel {c:02d}/0", bus=True, start=False, id=False),
    Style("2.18.3", "Channel {c:02d}/0", bus=False, start=True, id=True),
    Style("2.27.3", "Channel {c:02d}/0", bus=False, start=True, id=True, function="ncclCommInitRank "),
    Style("2.27.3, default subsystems", "Channel {c:02d}/0", bus=False, start=True, id=True, graph=False),
    Style("2.4.8", "Ring {c:02d}", bus=True, start=False, id=False, graph=False, parent_first=True),
)


@dataclass(frozen=True)
class Call:
    """``times`` operations of one kind."""

    name: str
    count: int
    datatype: int = 7
    root: int = 0
    times: int = 1


@dataclass(frozen=True)
class Cluster:
    """A job on one communicator.

    Attributes:
        gpus, nics: of each server; GPU g's ring connections on channel c use NIC ``nic(g, c)``.
        rings: by channel, ranks in ring order.
        trees: by channel, parent of each rank, -1 for the root.
    """

    servers: int
    gpus: int
    nics: int
    rings: tuple[tuple[int, ...], ...]
    trees: tuple[tuple[int, ...], ...]
    calls: tuple[Call, ...] = (Call("AllReduce", 1024),)

    @property
    def n(self) -> int:
        return self.servers * self.gpus

    def server(self, rank: int) -> str:
        return f"node{rank // self.gpus}"

    def nic(self, rank: int, channel: int) -> int:
        """Its own where there is one for each GPU, else another one on each channel."""
        return rank % self.gpus if self.nics >= self.gpus else (rank % self.gpus + channel) % self.nics

    def after(self, channel: int, rank: int) -> int:
        ring = self.rings[channel]
        return ring[(ring.index(rank) + 1) % self.n]

    def before(self, channel: int, rank: int) -> int:
        ring = self.rings[channel]
        return ring[ring.index(rank) - 1]


def prefix(cluster: Cluster, rank: int) -> str:
    device = rank % cluster.gpus
    return f"{cluster.server(rank)}:{1000 + rank}:{2000 + rank} [{device}] NCCL INFO "


def pointer(rank: int) -> str:
    return f"0x55{rank:06x}10"


def log_of(cluster: Cluster, rank: int, style: Style) -> list[str]:
    """The lines of one rank."""
    said = [
        "NET/IB : Using " + " ".join(f"[{i}]mlx5_{i}:1/RoCE" for i in range(cluster.nics)) + " ; OOB eth0:10.0.0.1<0>",
        "Using network IB",
    ]
    device = rank % cluster.gpus
    who = (
        f"{style.function}comm {pointer(rank)} rank {rank} nranks {cluster.n} cudaDev {device} busId {device + 10}000"
        + (" commId 0x5a16c3838ce6f1f8" if style.id else "")
    )
    if style.start:
        said.append(f"{who} - Init START")
    if rank == 0:
        for c, ring in enumerate(cluster.rings):
            line = f"Channel {c:02d}/{len(cluster.rings):02d} :" + "".join(f"{member:5d}" for member in ring)
            said.append(line[:LINE])
    if style.graph:
        for c in range(len(cluster.rings)):
            said.append(f"Ring {c:02d} : {cluster.before(c, rank)} -> {rank} -> {cluster.after(c, rank)}")
    said.append("Trees" + "".join(f" [{c}] {_tree(tree, rank, style)}" for c, tree in enumerate(cluster.trees)))
    for c in range(len(cluster.rings)):
        before, after = cluster.before(c, rank), cluster.after(c, rank)
        if before != rank and cluster.server(before) != cluster.server(rank):
            said.append(
                f"{_connection(cluster, style, c, before, rank)} [receive] via NET/IB/{cluster.nic(rank, c)}/GDRDMA"
            )
        if after != rank and cluster.server(after) != cluster.server(rank):
            said.append(
                f"{_connection(cluster, style, c, rank, after)} [send] via NET/IB/{cluster.nic(rank, c)}/GDRDMA"
            )
        elif after != rank:
            said.append(f"{_connection(cluster, style, c, rank, after)} via P2P/IPC/read")
    said.append("Connected all rings")
    said.append(f"{who} - Init COMPLETE")
    said += [line for call in cluster.calls for line in [_call(cluster, rank, call)] * call.times]
    return [prefix(cluster, rank) + line for line in said]


def _call(cluster: Cluster, rank: int, call: Call) -> str:
    return (
        f"{call.name}: opCount 0 sendbuff 0x7fc9c4000000 recvbuff 0x7fc9bc000000 count {call.count} "
        f"datatype {call.datatype} op 0 root {call.root} comm {pointer(rank)} [nranks={cluster.n}] stream 0x5631f002"
    )


def _tree(tree: Sequence[int], rank: int, style: Style) -> str:
    down = [child for child, above in enumerate(tree) if above == rank] + [-1, -1, -1]
    below = f"{down[0]}/{down[1]}/{down[2]}"
    return f"{tree[rank]}->{rank}->{below}" if style.parent_first else f"{below}->{rank}->{tree[rank]}"


def _connection(cluster: Cluster, style: Style, channel: int, src: int, dst: int) -> str:
    def gpu(rank: int) -> str:
        device = rank % cluster.gpus
        return f"{rank}[{device + 10:x}000]" if style.bus else f"{rank}[{device}]"

    return f"{style.connection.format(c=channel)} : {gpu(src)} -> {gpu(dst)}"


def logs(cluster: Cluster, style: Style) -> list[str]:
    """A log a rank."""
    return ["".join(f"{line}\n" for line in log_of(cluster, rank, style)) for rank in range(cluster.n)]


@st.composite
def clusters(draw: st.DrawFn, *, own_nics: bool | None = None, least: int = 1) -> Cluster:
    """Random clusters; ``own_nics``: whether every GPU has a NIC of its own."""
    servers = draw(st.integers(least, 4))
    gpus = draw(st.integers(1, 4))
    own = draw(st.booleans()) if own_nics is None else own_nics
    nics = gpus if own else draw(st.integers(1, gpus))
    n = servers * gpus
    channels = draw(st.integers(1, 4))
    rings = tuple(tuple(draw(st.permutations(range(n)))) for _ in range(channels))
    calls = draw(
        st.lists(
            st.builds(
                Call,
                st.sampled_from(["AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"]),
                st.integers(0, 10**6),
                st.sampled_from([0, 6, 7, 9]),
                st.integers(0, n - 1),
                st.integers(1, 3),
            ),
            min_size=1,
            max_size=4,
        )
    )
    return Cluster(servers, gpus, nics, rings, tuple(draw(trees(n)) for _ in range(channels)), tuple(calls))


@st.composite
def trees(draw: st.DrawFn, n: int) -> tuple[int, ...]:
    """Parents of a random tree whose ranks have three children at most, as NCCL's have."""
    order = draw(st.permutations(range(n)))
    parent = [-1] * n
    free = [order[0]] * 3
    for rank in order[1:]:
        parent[rank] = free.pop(draw(st.integers(0, len(free) - 1)))
        free += [rank] * 3
    return tuple(parent)
