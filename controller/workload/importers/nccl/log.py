"""The contents of log lines, for each rank of each communicator.

Most lines do not name their communicator. While a communicator is being created, one thread of a rank creates
it and writes its lines; so a line belongs to the communicator that its thread is creating or, afterwards, used last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.nccl import lines as nccl
from controller.workload.importers.nccl.containers import Containers
from controller.workload.importers.nccl.names import ThreadHostnames
from controller.workload.importers.notes import Notes

MAX_RANKS = 1 << 17
"""Most ranks of one communicator: larger than any real one, and small enough for memory."""

MAX_SIZES = 10_000
"""Most sizes that are distinguished for one rank of a communicator, and for one process' choices of algorithms."""

SIZE_OF = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Bytes of a value by ``ncclDataType_t``: int8, uint8, int32, uint32, int64, uint64, float16, 32, 64, bfloat16, and two
of 8 bits (nccl.h)."""


class Nic(NamedTuple):
    """A NIC of a server by its number in a transport."""

    net: str
    device: int


class Link(NamedTuple):
    """One end of a connection: ``kind`` 0 serves collectives, 1 send and receive."""

    kind: int
    channel: int
    peer: int


@dataclass
class Use:
    """The totals of operations of one kind."""

    times: int = 0
    bytes: int = 0


@dataclass
class Member:
    """One rank of one communicator, according to the log.

    Attributes:
        where: ``file:line`` of the first line about it.
        gpu: CUDA device of the process.
        bus: position of the GPU in the server (empty: unknown).
        rank: -1 until a line has it.
        n_ranks: -1 until a line has it.
        rings: (prev, next) by channel.
        orders: whole rings by channel, as far as a line has them.
        trees: (up, down) by channel.
        first_sends: receiver of the first connection on each channel, while rings are being connected.
        first_receives: sender of the first connection on each channel, while rings are being connected.
        sends: the NIC of each outgoing connection over the network; it may be another rank's.
        receives: the NIC of each incoming connection over the network.
        own: number of connections over each of its NICs.
        near: ranks that it reaches by P2P or shared memory.
        far: ranks that it reaches over the network.
        local: its position among the ranks of its server; -1: unknown.
        n_local: number of ranks of its server; 0: unknown.
        host_hash: NCCL's hash of the server; 0: unknown.
        uses: (operation, root, bytes of the operation's buffer as logged; -1: of several sizes).
    """

    where: str
    host: str
    pid: int
    gpu: int
    bus: str = ""
    pointer: int | None = None
    rank: int = -1
    n_ranks: int = -1
    id: int = 0
    parent: Member | None = None
    color: int = 0
    split: int = 0
    n_servers: int = 0
    complete: bool = False
    rings_connected: bool = False
    children: int = 0
    rings: dict[int, tuple[int, int]] = field(default_factory=dict)
    orders: dict[int, tuple[int, ...]] = field(default_factory=dict)
    trees: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    first_sends: dict[int, int] = field(default_factory=dict)
    first_receives: dict[int, int] = field(default_factory=dict)
    sends: dict[Link, Nic] = field(default_factory=dict)
    receives: dict[Link, Nic] = field(default_factory=dict)
    own: dict[Nic, int] = field(default_factory=dict)
    near: set[int] = field(default_factory=set)
    far: set[int] = field(default_factory=set)
    local: int = -1
    n_local: int = 0
    host_hash: int = 0
    uses: dict[tuple[str, int, int], Use] = field(default_factory=dict)

    @property
    def process(self) -> tuple[str, int]:
        """Hostname and process id."""
        return self.host, self.pid


@dataclass
class Log:
    """The contents of all files.

    Attributes:
        members: in the order of their first lines.
        choices: by process, by (operation, bytes): algorithm, and the first and last channel where known.
        devices: names of a server's NICs, by transport and number.
        only: the values of ``NCCL_ALGO``, where it was set.
        qp_settings: the values of the settings of QPs, where they were set: name -> values.
        n_lines: number of lines that NCCL wrote.
        addresses: IP addresses by process.
    """

    notes: Notes
    members: list[Member] = field(default_factory=list)
    choices: dict[tuple[str, int], dict[tuple[str, int], tuple[str, tuple[int, int] | None]]] = field(
        default_factory=dict
    )
    devices: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    only: set[str] = field(default_factory=set)
    qp_settings: dict[str, set[int]] = field(default_factory=dict)
    n_lines: int = 0
    addresses: dict[tuple[str, int], str] = field(default_factory=dict)
    _names: ThreadHostnames = field(default_factory=ThreadHostnames)
    _containers: Containers = field(default_factory=Containers)
    _at: dict[tuple[str, int, int], Member] = field(default_factory=dict)
    _of_gpu: dict[tuple[str, int, int], list[Member]] = field(default_factory=dict)
    _busy_with: dict[tuple[str, int, int], Member] = field(default_factory=dict)

    def add(self, where: str, line: str) -> bool:
        """Add a line; return whether NCCL wrote it.

        Args:
            where: ``file:line`` of the line.
            line: the text of the line.

        Raises:
            InputError: it contradicts an earlier one.
        """
        parts = nccl.split(line)
        if parts is None:
            return False
        self.n_lines += 1
        thread, text = parts
        thread, glued = self._names.own(thread)
        if glued:
            self._rename(glued, thread.host)
        try:
            message = nccl.parse(text)
        except ValueError:
            self.notes.add(
                "lines that cannot be understood", f"{where}: a line of NCCL that is truncated or mixed with another"
            )
            return True
        if message is not None:
            self._take(where, self._containers.of_process(thread), message)
        return True

    def begin(self, source: Source) -> None:
        """Begin the lines of another file."""
        self._containers.begin(source)

    def _rename(self, old: str, new: str) -> None:
        for member in self.members:
            member.host = new if member.host == old else member.host
        tables: tuple[dict[Any, Any], ...] = (
            self.choices,
            self.devices,
            self.addresses,
            self._at,
            self._of_gpu,
            self._busy_with,
        )
        for table in tables:
            for key in [key for key in table if key[0] == old]:
                table.setdefault((new, *key[1:]), table.pop(key))

    def named(self) -> Iterator[Member]:
        """Return the members whose rank is known."""
        return (member for member in self.members if member.rank >= 0 and member.n_ranks > 0)

    def finish(self) -> None:
        """Add notes on missing lines of a log that was cut, and on signs of more than one run."""
        users: dict[tuple[str, str], int] = {}
        for member in self.members:
            if member.bus and users.setdefault((member.host, member.bus), member.pid) != member.pid:
                self.notes.add(
                    "GPUs of several processes",
                    f"{member.where}: GPU {member.bus} of {member.host} had process {users[member.host, member.bus]} "
                    f"and then {member.pid}; if these are several runs, all of them count",
                )
        for member in self.members:
            if member.n_ranks < 0:
                self.notes.add(
                    "threads without a communicator",
                    f"{member.where}: there is no 'Init' line for these lines (the log is truncated); left out",
                )
            elif not member.complete:
                self.notes.add(
                    "incomplete ranks",
                    f"{member.where}: the log ends before rank {member.rank} of {member.n_ranks} is complete",
                )

    # -- lines that make communicators -----------------------------------------------------------------------------

    def _take(self, where: str, thread: nccl.Thread, message: nccl.Message) -> None:
        match message:
            case nccl.Init():
                self._init(where, thread, message)
            case nccl.RingNeighbours() | nccl.Tree() | nccl.Trees() | nccl.RingOrder():
                self._topology(where, thread, message)
            case nccl.ChannelConnection():
                self._connection(thread, message)
            case nccl.LoggedOperation():
                self._operation(where, thread, message)
            case nccl.RingsConnected():
                if member := self._busy_with.get(thread[:3]):
                    member.rings_connected = True
            case nccl.AlgorithmChoice():
                choices = self.choices.setdefault(thread[:2], {})
                if len(choices) < MAX_SIZES:
                    choices[message.name, message.bytes] = message.algorithm, message.channels
            case nccl.Devices():
                self.devices.setdefault((thread.host, message.net), {}).update(message.names)
            case nccl.Address():
                self.addresses.setdefault(thread[:2], message.value)
            case nccl.OnlyAlgorithms():
                self.only.add(message.value)
            case nccl.QpSetting():
                self.qp_settings.setdefault(message.name, set()).add(message.value)

    def _init(self, where: str, thread: nccl.Thread, row: nccl.Init) -> None:
        if row.n_ranks > MAX_RANKS:
            raise InputError(f"a communicator has at most {MAX_RANKS} ranks", source=where, value=row.n_ranks)
        self._containers.see(where, thread, row)
        key = (thread.host, thread.pid, row.pointer)
        made = self._busy_with.get(thread[:3])
        # Versions without START show at the end to whom the earlier lines belong.
        anonymous = made if made is not None and made.pointer is None else None
        member = self._at.get(key)
        if member is not None and row.state == "START" and member.id == row.id != 0 and member.rank == row.rank:
            raise InputError(
                f"rank {row.rank} of communicator 0x{row.id:x} began at {member.where}: is the log given twice?",
                source=where,
            )
        if member is not None and (row.state == "START" or anonymous or (member.complete and not _same(member, row))):
            member = None  # an earlier communicator had this memory
        if member is None:
            member = anonymous or self._new(where, thread)
            member.pointer = row.pointer
            self._at[key] = member
            self._adopt(member, row, thread, where)
        elif not _same(member, row):
            raise InputError(
                f"this was rank {member.rank} of {member.n_ranks} of communicator 0x{member.id:x} at {member.where}",
                source=where,
                value=f"rank {row.rank} of {row.n_ranks} of 0x{row.id:x}",
            )
        member.id = member.id or row.id
        member.n_servers = member.n_servers or row.n_servers
        member.host_hash = member.host_hash or row.host_hash
        if row.n_local:
            member.local, member.n_local = row.local, row.n_local
        member.complete = member.complete or row.state == "COMPLETE"
        self._busy_with[thread[:3]] = member

    def _adopt(self, member: Member, row: nccl.Init, thread: nccl.Thread, where: str) -> None:
        if member.rank not in (-1, row.rank):
            raise InputError(f"the lines before are of rank {member.rank}", source=where, value=f"rank {row.rank}")
        member.rank, member.n_ranks = row.rank, row.n_ranks
        member.bus = row.bus
        member.gpu = row.gpu if row.gpu >= 0 else member.gpu
        self._of_gpu.setdefault((member.host, member.pid, member.gpu), []).append(member)
        if row.parent is None:
            return
        member.color = row.color
        member.parent = self._at.get((thread.host, thread.pid, row.parent))
        if member.parent is not None and member.parent is not member:
            member.parent.children += 1
            member.split = member.parent.children
        if row.split is not None:
            member.split = row.split

    def _new(self, where: str, thread: nccl.Thread) -> Member:
        member = Member(where, thread.host, thread.pid, thread.gpu)
        self.members.append(member)
        return member

    # -- lines about the communicator that a thread makes ----------------------------------------------------------

    def _topology(
        self, where: str, thread: nccl.Thread, row: nccl.RingNeighbours | nccl.Tree | nccl.Trees | nccl.RingOrder
    ) -> None:
        member = self._busy_with.get(thread[:3])
        if member is None or member.complete:
            # No START announced it, so its name comes at the end.
            member = self._busy_with[thread[:3]] = self._new(where, thread)
        match row:
            case nccl.RingOrder():
                member.orders[row.channel] = row.ranks
            case nccl.RingNeighbours():
                self._is_rank(where, member, row.rank)
                ring = (row.prev, row.next)
                if member.rings.setdefault(row.channel, ring) != ring:
                    raise InputError(
                        f"ring {row.channel} of rank {row.rank} went {_arrow(member.rings[row.channel], row.rank)} "
                        f"before, see {member.where}",
                        source=where,
                        value=_arrow(ring, row.rank),
                    )
            case nccl.Tree():
                self._is_rank(where, member, row.rank)
                member.trees.setdefault(row.channel, (row.up, row.down))
            case nccl.Trees():
                if row.cut:
                    self.notes.add(
                        "lines truncated by NCCL", f"{where}: the 'Trees' line is truncated; its last tree is left out"
                    )
                for tree in row.trees:
                    self._is_rank(where, member, tree.rank)
                    # This line is final; lines of single trees are written while the trees are being built.
                    member.trees[tree.channel] = (tree.up, tree.down)

    def _is_rank(self, where: str, member: Member, rank: int) -> None:
        if member.rank == -1:
            member.rank = rank
        if member.rank != rank:
            raise InputError(
                f"the thread that wrote this makes rank {member.rank}, see {member.where}",
                source=where,
                value=f"rank {rank}",
            )

    def _connection(self, thread: nccl.Thread, row: nccl.ChannelConnection) -> None:
        rank, peer = (row.dst, row.src) if row.receiver else (row.src, row.dst)
        member = self._busy_with.get(thread[:3])
        if member is None or member.rank not in (-1, rank):
            member = self._connecting(thread, row, rank, peer)
        if member is None:
            return
        kind = row.kind or 0
        if row.within:
            member.near.add(peer)
        elif row.net:
            member.far.add(peer)
        if kind == 0 and not member.rings_connected:
            (member.first_receives if row.receiver else member.first_sends).setdefault(row.channel, peer)
        if row.net:
            ends = member.receives if row.receiver else member.sends
            nic = ends[Link(kind, row.channel, peer)] = Nic(row.net, row.device)
            if row.proxy is None:
                member.own[nic] = member.own.get(nic, 0) + 1

    def _connecting(self, thread: nccl.Thread, row: nccl.ChannelConnection, rank: int, peer: int) -> Member | None:
        """Return the member of a connection made by another thread, as at a communicator's first use from 2.22 on."""
        there = self._of_gpu.get((thread.host, thread.pid, thread.gpu), [])
        able = [member for member in there if member.rank == rank]
        if len(able) > 1:
            able = [member for member in able if peer in _neighbours(member, row.channel)]
        return able[0] if len(able) == 1 else None

    def _operation(self, where: str, thread: nccl.Thread, row: nccl.LoggedOperation) -> None:
        member = self._at.get((thread.host, thread.pid, row.pointer))
        if member is None:
            self.notes.add(
                "operations of unnamed communicators",
                f"{where}: no 'Init' line names communicator 0x{row.pointer:x} of {thread.host}:{thread.pid}; left out",
            )
            return
        self._busy_with[thread[:3]] = member  # which connects it, if that has not been done before
        if row.datatype >= len(SIZE_OF):
            self.notes.add(
                "operations on unknown data types", f"{where}: data type {row.datatype} is unknown; left out"
            )
            return
        size = row.elements * SIZE_OF[row.datatype]
        is_pair = row.name in ("Send", "Recv")
        key = (row.name, row.root, -1 if is_pair else size)
        if key not in member.uses and len(member.uses) >= MAX_SIZES:
            key = (row.name, row.root, -1)
        use = member.uses.setdefault(key, Use())
        use.times += 1
        use.bytes += size


def _same(member: Member, row: nccl.Init) -> bool:
    return (member.rank, member.n_ranks) == (row.rank, row.n_ranks) and (
        member.id == row.id or 0 in (member.id, row.id)
    )


def _neighbours(member: Member, channel: int) -> set[int]:
    up, down = member.trees.get(channel, (nccl.NOBODY, ()))
    return {*member.rings.get(channel, ()), up, *down}


def _arrow(ring: tuple[int, int], rank: int) -> str:
    return f"{ring[0]} -> {rank} -> {ring[1]}"
