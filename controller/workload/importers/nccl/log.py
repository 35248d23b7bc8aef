"""From lines to what each rank of each communicator told about itself.

Most lines do not say which communicator they are about. While a communicator is being made, one thread of a rank makes
it and writes its lines; so a line belongs to the communicator that its thread is making or, afterwards, has used last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.model.errors import InputError
from controller.workload.importers.nccl import lines as nccl
from controller.workload.importers.notes import Notes

MAX_RANKS = 1 << 17
"""Of one communicator: larger than any, and small enough for memory."""

MAX_SIZES = 10_000
"""Different sizes that are kept apart for one rank of a communicator, and of one process' choices of algorithms."""

SIZE_OF = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Bytes of a value by ``ncclDataType_t``: int8, uint8, int32, uint32, int64, uint64, float16, 32, 64, bfloat16, and two
of 8 bits (nccl.h)."""


class Nic(NamedTuple):
    """A NIC of a server as a transport numbers it."""

    net: str
    device: int


class Link(NamedTuple):
    """One end of a connection: ``kind`` 0 serves collectives, 1 send and receive."""

    kind: int
    channel: int
    peer: int


@dataclass
class Use:
    """What operations of one kind came to."""

    times: int = 0
    bytes: int = 0


@dataclass
class Member:
    """One rank of one communicator, as far as the log tells.

    Attributes:
        where: ``file:line`` of the first line about it.
        gpu, bus: CUDA device of the process, and which GPU of the server that is (empty: not told).
        rank, n_ranks: -1 as long as no line has told.
        rings: (prev, next) by channel.
        orders: whole rings by channel, as far as a line holds them.
        trees: (up, down) by channel.
        first_sends: receiver of the first connection on each channel, as long as rings were being connected.
        sends, receives: the NIC of each connection over the network; of a send it may be another rank's.
        own: how many connections are over each NIC of its own.
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
    sends: dict[Link, Nic] = field(default_factory=dict)
    receives: dict[Link, Nic] = field(default_factory=dict)
    own: dict[Nic, int] = field(default_factory=dict)
    uses: dict[tuple[str, int, int], Use] = field(default_factory=dict)

    @property
    def process(self) -> tuple[str, int]:
        return self.host, self.pid


@dataclass
class Log:
    """All that was read, of all files.

    Attributes:
        members: in the order in which they first came.
        choices: by process, by (operation, bytes): algorithm, and the first and last channel where told.
        devices: names of a server's NICs, by transport and number.
        only: what ``NCCL_ALGO`` was set to, where it was.
        n_lines: lines that NCCL wrote.
    """

    notes: Notes
    members: list[Member] = field(default_factory=list)
    choices: dict[tuple[str, int], dict[tuple[str, int], tuple[str, tuple[int, int] | None]]] = field(
        default_factory=dict
    )
    devices: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)
    only: set[str] = field(default_factory=set)
    n_lines: int = 0
    _at: dict[tuple[str, int, int], Member] = field(default_factory=dict)
    _of_gpu: dict[tuple[str, int, int], list[Member]] = field(default_factory=dict)
    _busy_with: dict[tuple[str, int, int], Member] = field(default_factory=dict)

    def add(self, where: str, line: str) -> bool:
        """Take a line in; whether NCCL wrote it.

        Args:
            where: ``file:line``.

        Raises:
            InputError: it contradicts an earlier one.
        """
        found = nccl.split(line)
        if found is None:
            return False
        self.n_lines += 1
        thread, text = found
        try:
            message = nccl.parse(text)
        except ValueError:
            self.notes.add("lines that cannot be understood", f"{where}: a line of NCCL's that is cut or mixed up")
            return True
        if message is not None:
            self._take(where, thread, message)
        return True

    def named(self) -> Iterator[Member]:
        """Those whose rank is known."""
        return (member for member in self.members if member.rank >= 0 and member.n_ranks > 0)

    def finish(self) -> None:
        """Say what a log that was cut short leaves open, and where there seems to be more than one run in it."""
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
                    "threads whose communicator is not named",
                    f"{member.where}: no 'Init' line says whose lines these are (the log is cut short); left out",
                )
            elif not member.complete:
                self.notes.add(
                    "ranks cut short",
                    f"{member.where}: the log ends before rank {member.rank} of {member.n_ranks} is complete",
                )

    # -- lines that make communicators -----------------------------------------------------------------------------

    def _take(self, where: str, thread: nccl.Thread, message: nccl.Message) -> None:
        match message:
            case nccl.Init():
                self._init(where, thread, message)
            case nccl.Ring() | nccl.Tree() | nccl.Trees() | nccl.Order():
                self._topology(where, thread, message)
            case nccl.Connection():
                self._connection(thread, message)
            case nccl.Operation():
                self._operation(where, thread, message)
            case nccl.RingsConnected():
                if member := self._busy_with.get(thread[:3]):
                    member.rings_connected = True
            case nccl.Choice():
                choices = self.choices.setdefault(thread[:2], {})
                if len(choices) < MAX_SIZES:
                    choices[message.name, message.bytes] = message.algorithm, message.channels
            case nccl.Devices():
                self.devices.setdefault((thread.host, message.net), {}).update(message.names)
            case nccl.OnlyAlgorithms():
                self.only.add(message.value)

    def _init(self, where: str, thread: nccl.Thread, row: nccl.Init) -> None:
        if row.n_ranks > MAX_RANKS:
            raise InputError(f"a communicator has at most {MAX_RANKS} ranks", source=where, value=row.n_ranks)
        key = (thread.host, thread.pid, row.pointer)
        made = self._busy_with.get(thread[:3])
        # Versions without START tell at the end whose lines came before.
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

    def _topology(self, where: str, thread: nccl.Thread, row: nccl.Ring | nccl.Tree | nccl.Trees | nccl.Order) -> None:
        member = self._busy_with.get(thread[:3])
        if member is None or member.complete:
            # No START announced it, so its name comes at the end.
            member = self._busy_with[thread[:3]] = self._new(where, thread)
        match row:
            case nccl.Order():
                member.orders[row.channel] = row.ranks
            case nccl.Ring():
                self._is_rank(where, member, row.rank)
                told = (row.prev, row.next)
                if member.rings.setdefault(row.channel, told) != told:
                    raise InputError(
                        f"ring {row.channel} of rank {row.rank} went {_arrow(member.rings[row.channel], row.rank)} "
                        f"before, see {member.where}",
                        source=where,
                        value=_arrow(told, row.rank),
                    )
            case nccl.Tree():
                self._is_rank(where, member, row.rank)
                member.trees.setdefault(row.channel, (row.up, row.down))
            case nccl.Trees():
                if row.cut:
                    self.notes.add("lines cut by NCCL", f"{where}: the 'Trees' line is cut; its last tree is left out")
                for tree in row.trees:
                    self._is_rank(where, member, tree.rank)
                    # This line is NCCL's last word; those of single trees come while they are being built.
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

    def _connection(self, thread: nccl.Thread, row: nccl.Connection) -> None:
        rank, peer = (row.dst, row.src) if row.receiver else (row.src, row.dst)
        member = self._busy_with.get(thread[:3])
        if member is None or member.rank not in (-1, rank):
            member = self._connecting(thread, row, rank, peer)
        if member is None:
            return
        kind = row.kind or 0
        if kind == 0 and not row.receiver and not member.rings_connected:
            member.first_sends.setdefault(row.channel, peer)
        if row.net:
            ends = member.receives if row.receiver else member.sends
            nic = ends[Link(kind, row.channel, peer)] = Nic(row.net, row.device)
            if row.proxy is None:
                member.own[nic] = member.own.get(nic, 0) + 1

    def _connecting(self, thread: nccl.Thread, row: nccl.Connection, rank: int, peer: int) -> Member | None:
        """Whose connection it is that another thread makes, as from 2.22 on at the first use of a communicator."""
        there = self._of_gpu.get((thread.host, thread.pid, thread.gpu), [])
        able = [member for member in there if member.rank == rank]
        if len(able) > 1:
            able = [member for member in able if peer in _neighbours(member, row.channel)]
        return able[0] if len(able) == 1 else None

    def _operation(self, where: str, thread: nccl.Thread, row: nccl.Operation) -> None:
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
                "operations on unknown data types", f"{where}: data type {row.datatype} is not known; left out"
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
