"""Communicators from the ranks' lines, and one numbering of all ranks."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from controller.model.errors import InputError
from controller.workload.importers.nccl.log import Log, Member, Use
from controller.workload.importers.notes import Notes


@dataclass
class Communicator:
    """A communicator of a job.

    Attributes:
        name: ``c0``, ``c1``, ... in the order in which the log names them.
        members: by rank; ranks without a log are missing.
        ranks: the job's rank of each rank; -1 where it is unknown.
        uses: operations recorded beside the log (``inspector``), by (operation, root, bytes): the
            algorithm, empty where it is unknown, and their totals.
    """

    name: str
    n_ranks: int
    id: int = 0
    members: dict[int, Member] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)
    uses: dict[tuple[str, int, int], tuple[str, Use]] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Use] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """The ranks without a log."""
        return [rank for rank in range(self.n_ranks) if rank not in self.members]

    def share_a_server(self, one: int, other: int) -> bool:
        """Return whether two ranks are on one server; for ranks without a log, according to the other ranks.

        Raises:
            InputError: it cannot be determined.
        """
        here, there = self.members.get(one), self.members.get(other)
        if here is not None and there is not None:
            return here.host == there.host
        for member, peer in ((here, other), (there, one)):
            if member is not None and (peer in member.near or peer in member.far):
                return peer in member.near
        if not self.block:
            lost = other if here is not None else one
            raise InputError(
                f"communicator {self.name} has {self.n_ranks} ranks, rank {lost} has no log, and its server "
                "is unknown: give its log as well",
                source=self.first.where,
            )
        return one // self.block == other // self.block

    def server_of(self, rank: int) -> str | None:
        """Return a name for the server of a rank; ``None``: unknown.

        For a rank without a log it is derived from the other ranks.
        """
        if rank in self.members:
            return self.members[rank].host
        for member in self.members.values():
            if rank in member.near:
                return member.host
        if not self.block:
            return None
        first = rank - rank % self.block
        there = (self.members[other].host for other in range(first, first + self.block) if other in self.members)
        return next(there, f"ranks {first}..")

    @property
    def n_servers(self) -> int:
        """Number of servers reported by its ranks (from 2.19 on); 0: unknown."""
        return max((member.n_servers for member in self.members.values()), default=0)

    @cached_property
    def block(self) -> int:
        """Number of consecutive ranks on each server, if it is the same for all ranks in the log; else 0."""
        if self.n_servers:
            sizes = [self.n_ranks // self.n_servers] if self.n_ranks % self.n_servers == 0 else []
        else:
            sizes = [size for size in range(1, self.n_ranks + 1) if self.n_ranks % size == 0]
        fitting = [size for size in sizes if self._has_blocks_of(size)]
        return fitting[0] if len(fitting) == 1 else 0

    def _has_blocks_of(self, size: int) -> bool:
        hosts = {rank // size: member.host for rank, member in self.members.items()}
        if len(set(hosts.values())) < len(hosts):
            return False
        for rank, member in self.members.items():
            if hosts[rank // size] != member.host:
                return False
            # Between ranks of one server the network is used only where P2P and shared memory are off.
            if any(peer // size != rank // size for peer in member.near):
                return False
            if not member.n_servers and any(peer // size == rank // size for peer in member.far):
                return False
        return True

    @property
    def first(self) -> Member:
        """The member that the log names first."""
        return next(iter(self.members.values()))


class _Nameless(NamedTuple):
    """A communicator without an identity: the ``number``-th of its size."""

    n_ranks: int
    number: int


def join(log: Log) -> list[Communicator]:
    """Return the communicators of a log, in the order in which it names them.

    Raises:
        InputError: two ranks claim the same place.
    """
    communicators: dict[Hashable, Communicator] = {}
    keys: dict[int, Hashable] = {}
    adopted = _adopted(log)
    for member in log.named():
        key = keys[id(member)] = adopted.get(id(member)) or _key(member, keys, communicators)
        one = communicators.setdefault(key, Communicator(f"c{len(communicators)}", member.n_ranks, member.id))
        if one.n_ranks != member.n_ranks:
            raise InputError(
                f"communicator {one.name} had {one.n_ranks} ranks at {one.first.where}",
                source=member.where,
                value=f"nranks {member.n_ranks}",
            )
        other = one.members.setdefault(member.rank, member)
        if other is not member:
            raise InputError(
                f"rank {member.rank} of communicator {one.name} was {other.host}:{other.pid} at {other.where}",
                source=member.where,
                value=f"{member.host}:{member.pid}",
            )
    for key, one in communicators.items():
        if isinstance(key, _Nameless) and key.number == 1:
            log.notes.add(
                "communicators that cannot be distinguished",
                f"{one.first.where}: several communicators have {key.n_ranks} ranks and cannot be distinguished "
                "(NCCL 2.16 and later name them); ranks are assigned in order",
            )
    return list(communicators.values())


def _adopted(log: Log) -> dict[int, Hashable]:
    """Assign members without an identity to the only communicator with an identity that has a free place for each."""
    members = list(log.named())
    places: dict[tuple[int, int], dict[int, tuple[str, int, int]]] = {}
    for member in members:
        if member.id:
            places.setdefault((member.n_ranks, member.id), {})[member.rank] = _gpu(member)
    keys: dict[int, Hashable] = {}
    for member in members:
        if member.id or member.parent is not None:
            continue
        free = [
            key
            for key, taken in places.items()
            if key[0] == member.n_ranks and member.rank not in taken and _gpu(member) not in taken.values()
        ]
        if len(free) == 1:
            places[free[0]][member.rank] = _gpu(member)
            keys[id(member)] = "id", free[0][1]
            log.notes.add(
                "ranks whose lines lack the communicator's identity",
                f"{member.where}: rank {member.rank} of {member.n_ranks} lacks the identity of its communicator "
                "(commId); it is assigned to the only one without this rank",
            )
    return keys


def _key(member: Member, keys: dict[int, Hashable], communicators: dict[Hashable, Communicator]) -> Hashable:
    """Return the key shared by the ranks of one communicator."""
    if member.id:
        return "id", member.id
    if member.parent is not None and id(member.parent) in keys:
        # From 2.23 on a split communicator's lines have no identity of their own.
        return "split", keys[id(member.parent)], member.split, member.color
    # Before 2.16 lines have no identity: ranks are grouped in the order in which they are named.
    key = _Nameless(member.n_ranks, 0)
    while key in communicators and member.rank in communicators[key].members:
        key = key._replace(number=key.number + 1)
    return key


def number_ranks(communicators: list[Communicator], notes: Notes) -> list[Member | None]:
    """Assign the job's ranks to communicators; return a member of each rank, ``None`` for ranks without a log.

    The largest communicator's ranks come first, unchanged: frameworks make one of all processes. GPUs outside it
    follow by server and device.
    """
    if not communicators:
        return []
    world = max(communicators, key=lambda one: one.n_ranks)
    number: dict[tuple[str, int, int], int] = {}
    people: list[Member | None] = [None] * world.n_ranks
    for rank, member in sorted(world.members.items()):
        if number.setdefault(_gpu(member), rank) != rank:
            first = people[number[_gpu(member)]]
            raise InputError(
                f"the same GPU of the same process is also rank {number[_gpu(member)]}, see "
                f"{first.where if first else ''}",
                source=member.where,
                value=f"rank {rank} of {world.n_ranks}",
            )
        people[rank] = member
    others = {_gpu(member): member for one in communicators for member in one.members.values()}
    for gpu in sorted(others.keys() - number.keys(), key=_natural):
        number[gpu] = len(people)
        people.append(others[gpu])
    for one in communicators:
        one.ranks = [-1] * one.n_ranks
        for rank, member in one.members.items():
            one.ranks[rank] = number[_gpu(member)]
    # They have no log, but their rank in the largest communicator is known.
    world.ranks = list(range(world.n_ranks))
    for one in communicators:
        if missing := one.missing:
            notes.add(
                "communicators with ranks missing",
                f"{one.name}: {len(missing)} of {one.n_ranks} ranks have no log, the first is {missing[0]}"
                + (
                    f"; they are assumed to be on servers of {one.block} ranks each, like the others"
                    if one.block
                    else ""
                ),
            )
    if len(people) > world.n_ranks:
        notes.once(
            f"{len(people) - world.n_ranks} GPUs are not in the largest communicator {world.name}; "
            "they are numbered after its ranks",
        )
    return people


def _gpu(member: Member) -> tuple[str, int, int]:
    return member.host, member.pid, member.gpu


def _natural(gpu: tuple[str, int, int]) -> tuple[list[tuple[int, str]], int, int]:
    """Return a key by which node2 comes before node10."""
    host, pid, device = gpu
    parts = re.findall(r"\d+|\D+", host)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts], device, pid
