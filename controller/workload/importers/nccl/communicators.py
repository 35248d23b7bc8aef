"""From the ranks' own accounts to communicators, and to one numbering of all ranks."""

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
        members: by rank; ranks whose log is missing are not there.
        ranks: the job's rank of each rank; -1 where nobody knows it.
        uses: of somebody who saw its operations beside the log (``inspector``), by (operation, root, bytes): the
            algorithm, empty where it is not told, and what they came to.
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
        return [rank for rank in range(self.n_ranks) if rank not in self.members]

    def share_a_server(self, one: int, other: int) -> bool:
        """Whether two ranks are on one server; where a log is missing, as far as the other ranks let expect."""
        here, there = self.members.get(one), self.members.get(other)
        if here is not None and there is not None:
            return here.host == there.host
        return bool(self.block) and one // self.block == other // self.block

    @cached_property
    def block(self) -> int:
        """How many ranks in a row each server has, if the ranks that were heard are like that; else 0."""
        n_servers = max((member.n_servers for member in self.members.values()), default=0)
        if n_servers < 1 or self.n_ranks % n_servers:
            return 0
        block = self.n_ranks // n_servers
        hosts = {rank // block: member.host for rank, member in self.members.items()}
        alike = all(hosts[rank // block] == member.host for rank, member in self.members.items())
        return block if alike and len(set(hosts.values())) == len(hosts) else 0

    @property
    def first(self) -> Member:
        """Of the members, the first that the log names."""
        return next(iter(self.members.values()))


class _Nameless(NamedTuple):
    """A communicator without an identity: the ``number``-th of its size."""

    n_ranks: int
    number: int


def join(log: Log) -> list[Communicator]:
    """The communicators of a log, in the order in which it names them.

    Raises:
        InputError: two ranks claim the same place.
    """
    found: dict[Hashable, Communicator] = {}
    keys: dict[int, Hashable] = {}
    for member in log.named():
        key = keys[id(member)] = _key(member, keys, found)
        one = found.setdefault(key, Communicator(f"c{len(found)}", member.n_ranks, member.id))
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
    for key, one in found.items():
        if isinstance(key, _Nameless) and key.number == 1:
            log.notes.add(
                "sizes of communicators that are not told apart",
                f"{one.first.where}: several communicators have {key.n_ranks} ranks, and nothing tells which ranks are "
                "together (NCCL from 2.16 on would); taken in the order in which they come",
            )
    return list(found.values())


def _key(member: Member, keys: dict[int, Hashable], found: dict[Hashable, Communicator]) -> Hashable:
    """What the ranks of one communicator have in common."""
    if member.id:
        return "id", member.id
    if member.parent is not None and id(member.parent) in keys:
        # From 2.23 on a split communicator's lines have no identity of their own.
        return "split", keys[id(member.parent)], member.split, member.color
    # Before 2.16 no line tells an identity: ranks come together in the order in which they are named.
    key = _Nameless(member.n_ranks, 0)
    while key in found and member.rank in found[key].members:
        key = key._replace(number=key.number + 1)
    return key


def number_ranks(communicators: list[Communicator], notes: Notes) -> list[Member | None]:
    """Give the communicators the job's ranks; the answer has somebody of each rank, ``None`` where nobody was heard.

    The largest communicator's ranks come first, as they are: frameworks make one of all processes. GPUs outside it
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
                f"one GPU of one process is rank {number[_gpu(member)]}, too, see {first.where if first else ''}",
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
    # Nobody heard them, but their place in the largest is theirs.
    world.ranks = list(range(world.n_ranks))
    for one in communicators:
        if missing := one.missing:
            notes.add(
                "communicators with ranks missing",
                f"{one.name}: {len(missing)} of {one.n_ranks} ranks have no log, the first is {missing[0]}"
                + (f"; taken to be on servers of {one.block} ranks each, as the others are" if one.block else ""),
            )
    if len(people) > world.n_ranks:
        notes.once(
            f"{len(people) - world.n_ranks} GPUs are not in the largest communicator {world.name}; "
            "they are numbered behind its ranks",
        )
    return people


def _gpu(member: Member) -> tuple[str, int, int]:
    return member.host, member.pid, member.gpu


def _natural(gpu: tuple[str, int, int]) -> tuple[list[tuple[int, str]], int, int]:
    """node2 before node10."""
    host, pid, device = gpu
    parts = re.findall(r"\d+|\D+", host)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts], device, pid
