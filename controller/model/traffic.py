"""Traffic: every flow of every job on a fabric, as a struct of arrays."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.priority import JobClass
from controller.model.queue_pairs import ONE_QP, QueuePairs
from controller.model.timing import JobTiming
from controller.model.waits import FOR_COMPUTING, Waits

Int64Array = NDArray[np.int64]

ANY_PORT = 0
"""``udp_src`` of a RoCEv2 flow whose source port is unknown (a job with ``"ports": "unknown"``)."""

FIRST_PORT, LAST_PORT = 49152, MAX_PORT
"""The UDP source ports of RoCEv2 queue pairs (InfiniBand Architecture Specification 1.4, annex A17.9.2.1)."""


@dataclass(frozen=True)
class Collective:
    """A row of the table of collectives; ``weight`` and ``timing`` are those of its job. Phases never compete.

    ``qps``: the QPs of each of its connections. Flow ``number`` is QP ``number % qps.count`` of connection
    ``number // qps.count``. ``between_ports``: its flows are given between ports of NICs, not between NICs, so none
    may take another plane. ``in_turns``: some of its flows wait for others (trees, halving and doubling), so that not
    all are sent from its begin to its end. ``waits``: what it waits for, and the phase that waits for it.
    ``tenant``: whose job it is; ``weight`` is then its share of that of the tenant.
    ``any_order``: receivers take the packets of a flow in any order. ``priority``: class of its packets
    (``model.priority``). ``rounds``: if it sends some of its connections after others, (connections, round) in order
    of their numbers in a channel. ``forwards``: hosts pass data on piece by piece (trees), so that rounds overlap.
    """

    job: str
    name: str
    weight: float = 1.0
    phase: int = 0
    # Not in ``repr``, so that traffic without them keeps the version that it had before these fields existed.
    timing: JobTiming | None = field(default=None, repr=False)
    qps: QueuePairs = field(default=ONE_QP, repr=False)
    between_ports: bool = field(default=False, repr=False)
    in_turns: bool = field(default=False, repr=False)
    waits: Waits = field(default=FOR_COMPUTING, repr=False)
    tenant: str | None = field(default=None, repr=False)
    any_order: bool = field(default=False, repr=False)
    priority: int = field(default=0, repr=False)
    rounds: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    forwards: bool = field(default=False, repr=False)

    @property
    def n_rounds(self) -> int:
        """The number of rounds that it is sent in; 1 where that is not known."""
        return 1 + max((number for _, number in self.rounds), default=0)

    def round_of(self, number: IntArray) -> IntArray:
        """Return the rounds [N] of the flows ``number`` [N] of a collective whose rounds are known."""
        own: IntArray = np.array(self.rounds, dtype=np.int32)[self.part_of(number), 1]
        return own

    def part_of(self, number: IntArray) -> IntArray:
        """Return the positions [N] in ``rounds`` of the flows ``number`` [N] of a collective: one tree, up or down."""
        ends = np.cumsum([many for many, _ in self.rounds])
        part: IntArray = np.searchsorted(ends, number // self.qps.count % ends[-1], side="right").astype(np.int32)
        return part

    def flow_name(self, number: int) -> str:
        """Return the last part of a flow's id: ``17``, or ``17.2`` for QP 2 of connection 17."""
        if self.qps.count == 1:
            return str(number)
        connection, qp = divmod(number, self.qps.count)
        return f"{connection}.{qp}"


_COLUMNS = {
    "src": np.int32,
    "dst": np.int32,
    "bytes": np.int64,
    "collective": np.int32,
    "number": np.int32,
    "udp_src": np.int32,
}


@dataclass(frozen=True, eq=False)
class Traffic:
    """F flows (one per QP) in deterministic order, and the collectives they belong to.

    Attributes:
        src: [F] host index of the sender in the fabric.
        dst: [F] host index of the receiver in the fabric.
        bytes: [F] bytes that the flow carries within one run of its collective, at least 1.
        collective: [F] index into ``collectives``.
        number: [F] the flow's number within its collective (the last part of its id); see ``Collective``.
        udp_src: [F] UDP source port, or ``ANY_PORT``; of other protocols than RoCEv2 a greater number, which stands for
            protocol and port (``model.flow_ports``).
        collectives: the K collectives, including those that have no flow on the network.

    Flows within one server, zero-byte flows and same-host flows are not included: the code that builds a Traffic
    leaves them out.
    """

    src: IntArray
    dst: IntArray
    bytes: Int64Array
    collective: IntArray
    number: IntArray
    udp_src: IntArray
    collectives: tuple[Collective, ...]

    def __post_init__(self) -> None:
        """Convert the columns to one type and memory layout each."""
        # Compiled code is specialised by type and layout: all builders' arrays are converted to one kind.
        for name, dtype in _COLUMNS.items():
            object.__setattr__(self, name, np.require(getattr(self, name), dtype, ["C", "W"]))

    @property
    def n_flows(self) -> int:
        """The number F of flows."""
        return len(self.src)

    @cached_property
    def weight(self) -> FloatArray:
        """[K] weight of each collective."""
        return np.fromiter(map(attrgetter("weight"), self.collectives), np.float64, len(self.collectives))

    @cached_property
    def jobs(self) -> tuple[str, ...]:
        """Names of the jobs, in order of first appearance."""
        return tuple(dict.fromkeys(c.job for c in self.collectives))

    @cached_property
    def job_index(self) -> IntArray:
        """[K] index into ``jobs`` of each collective."""
        index = {job: i for i, job in enumerate(self.jobs)}
        return np.array([index[c.job] for c in self.collectives], dtype=np.int32)

    @cached_property
    def phase(self) -> IntArray:
        """[K] phase of each collective within its job."""
        return np.fromiter(map(attrgetter("phase"), self.collectives), np.int32, len(self.collectives))

    @cached_property
    def priority(self) -> IntArray:
        """[K] class of priority of each collective."""
        return np.fromiter(map(attrgetter("priority"), self.collectives), np.int32, len(self.collectives))

    @cached_property
    def qps(self) -> Int64Array:
        """[K] QPs of each connection of each collective."""
        return np.fromiter(map(attrgetter("qps.count"), self.collectives), np.int64, len(self.collectives))

    @cached_property
    def by_collective(self) -> tuple[IntArray, IntArray]:
        """Flows in order of their collectives [F], and where each collective begins [K+1]."""
        if (self.collective[1:] >= self.collective[:-1]).all():
            order = np.arange(self.n_flows, dtype=np.int32)
        else:
            order = np.argsort(self.collective, kind="stable").astype(np.int32)
        ptr = np.zeros(len(self.collectives) + 1, dtype=np.int32)
        np.cumsum(np.bincount(self.collective, minlength=len(self.collectives)), out=ptr[1:])
        return order, ptr

    @cached_property
    def unit(self) -> IntArray:
        """[F] placement unit: flows with equal source, destination and ``udp_src`` cannot be distinguished.

        Units are numbered by first appearance, so with distinct ports ``unit`` is simply 0..F-1.
        """
        key = unit_key(self.src, self.dst, self.udp_src)
        in_order = np.sort(key)
        if (in_order[1:] > in_order[:-1]).all():
            return np.arange(len(key), dtype=np.int32)
        return by_first_appearance(key)

    @cached_property
    def connection(self) -> IntArray:
        """[F] connection of each flow, numbered by first appearance: QPs of one connection have the same number."""
        if not self.n_flows or self.qps.max() == 1:
            return np.arange(self.n_flows, dtype=np.int32)
        key = (self.collective.astype(np.int64) << 32) | (self.number // self.qps[self.collective])
        return by_first_appearance(key)

    @cached_property
    def some_any_order(self) -> bool:
        """Whether receivers of some collective take packets in any order."""
        return any(map(attrgetter("any_order"), self.collectives))

    @cached_property
    def spreadable(self) -> BoolArray:
        """[F] whether the packets of a flow may take several paths at once.

        Those of flows that cannot be distinguished may if each of the flows allows it.
        """
        if not self.some_any_order:
            return np.zeros(self.n_flows, dtype=np.bool_)
        free = np.fromiter(map(attrgetter("any_order"), self.collectives), np.bool_, len(self.collectives))
        kept = np.zeros(self.n_units, dtype=np.bool_)
        kept[self.unit[~free[self.collective]]] = True
        spreadable: BoolArray = ~kept[self.unit]
        return spreadable

    @property
    def n_units(self) -> int:
        """The number of placement units."""
        return int(self.unit.max()) + 1 if len(self.unit) else 0

    def flow_id(self, flow: int) -> str:
        """Return the id of a flow, such as ``gpt3-a/dp0/17``, or ``gpt3-a/dp0/17.2`` for QP 2 of connection 17."""
        row = self.collectives[self.collective[flow]]
        return f"{row.job}/{row.name}/{row.flow_name(int(self.number[flow]))}"

    def connection_id(self, flow: int) -> tuple[str, int]:
        """Return the id of a flow's connection, such as ``gpt3-a/dp0/17``, and the number of the QP there."""
        row = self.collectives[self.collective[flow]]
        connection, qp = divmod(int(self.number[flow]), row.qps.count)
        return f"{row.job}/{row.name}/{connection}", qp

    @cached_property
    def version(self) -> str:
        """A short hash of the content: equal traffic has equal versions."""
        digest = hashlib.blake2b(_text(self.collectives).encode(), digest_size=8)
        if any(row.timing is not None for row in self.collectives):
            digest.update(repr([row.timing for row in self.collectives]).encode())
        if any(row.qps != ONE_QP for row in self.collectives):
            digest.update(repr([row.qps for row in self.collectives]).encode())
        if any(row.waits != FOR_COMPUTING for row in self.collectives):
            digest.update(repr([row.waits for row in self.collectives]).encode())
        if any(row.waits.until is not None for row in self.collectives):
            digest.update(repr([row.waits.until for row in self.collectives]).encode())
        if any(row.tenant is not None for row in self.collectives):
            digest.update(repr([row.tenant for row in self.collectives]).encode())
        if any(row.any_order for row in self.collectives):
            digest.update(repr([row.any_order for row in self.collectives]).encode())
        if any(row.priority for row in self.collectives):
            digest.update(repr([row.priority for row in self.collectives]).encode())
        for array in (self.src, self.dst, self.bytes, self.collective, self.number, self.udp_src):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def of_flows(self, flows: Int64Array) -> Traffic:
        """Return some flows of it, with all collectives."""
        columns = {name: getattr(self, name)[flows] for name in _COLUMNS}
        return Traffic(**columns, collectives=self.collectives)

    def with_classes(self, classes: Sequence[JobClass]) -> Traffic:
        """Return the same flows, with a class of priority for all collectives of these jobs; itself without any."""
        of_job = dict(classes)
        if not any(row.job in of_job for row in self.collectives):
            return self
        rows = tuple(
            dataclasses.replace(row, priority=of_job[row.job]) if row.job in of_job else row for row in self.collectives
        )
        return dataclasses.replace(self, collectives=rows)

    @staticmethod
    def empty() -> Traffic:
        """Return a traffic without flows and collectives."""
        none = np.zeros(0, dtype=np.int32)
        return Traffic(none, none, none.astype(np.int64), none, none, none, ())


def _text(collectives: tuple[Collective, ...]) -> str:
    """Return ``repr(collectives)``. That of a data class guards against recursion, which takes most of its time."""
    rows = [
        f"Collective(job={row.job!r}, name={row.name!r}, weight={row.weight!r}, phase={row.phase!r})"
        for row in collectives
    ]
    return f"({', '.join(rows)}{',' * (len(rows) == 1)})"


def by_first_appearance(key: Int64Array) -> IntArray:
    """Return a number [F] for each key, 0 for the first one and counting up with each new one."""
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    number: IntArray = rank[inverse.reshape(-1)]
    return number


_KIND_SHIFT = 60
"""Of what stands above the 16 bits of a port in ``udp_src``: in front, so that RoCEv2 flows come first."""


def unit_key(src: IntArray | Int64Array, dst: IntArray | Int64Array, udp_src: IntArray | Int64Array) -> Int64Array:
    """Return a number [F] for each flow by what a switch can distinguish: host indices below 2^20, and ``udp_src``."""
    code = udp_src.astype(np.int64)
    key: Int64Array = (src.astype(np.int64) << 40) | (dst.astype(np.int64) << 16) | (code & MAX_PORT)
    if len(code) and code.max() > MAX_PORT:
        key |= code >> 16 << _KIND_SHIFT
    return key


def key_parts(key: Int64Array) -> tuple[IntArray, IntArray, IntArray]:
    """Return source, destination and ``udp_src`` [N] of keys from ``unit_key``."""
    src, dst = (key >> 40) & 0xFFFFF, (key >> 16) & 0xFFFFFF
    code = (key & MAX_PORT) | key >> _KIND_SHIFT << 16
    return src.astype(np.int32), dst.astype(np.int32), code.astype(np.int32)
