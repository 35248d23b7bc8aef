"""A training job as its owner describes it: ranks on hosts, and the data they exchange in one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from controller.model.choices.packet_order import KEPT, PacketOrder
from controller.model.choices.protocol import ROCE, Protocol
from controller.model.fabric import IntArray
from controller.model.packets.flow_ports import PortKind, kind_of, states_port
from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobTiming
from controller.model.traffic import Int64Array
from controller.model.waits import FOR_COMPUTING, Waits

Op = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv"]
Algorithm = Literal["ring", "direct", "tree", "halving_doubling", "chain"]

NO_FLOWS = "it sends nothing from one host to another: nothing will be routed"
"""What people are told of a job whose ranks are on one server, or that has no bytes."""


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One operation in which ranks take part.

    Rings and trees are derived from the ranks. Other operations, such as those of an NCCL log, are given flow by
    flow: no formula is applied where the edges are known.

    Attributes:
        ranks: in order around the ring or along the chain; the first is the root of a ``broadcast`` or ``reduce``;
            (sender, receiver) of a ``send_recv``.
        bytes: size S of the operation as NCCL's tests define it: of the buffer that an ``all_reduce`` reduces, of the
            whole that an ``all_gather`` collects or a ``reduce_scatter`` starts from, of what a rank of an
            ``all_to_all`` has for all ranks together, of the buffer that a ``broadcast`` or ``reduce`` passes on, of a
            ``send_recv``'s message.
        algorithm: one that ``workload.collectives`` has for the operation; ``None``: the default one.
        phase: collectives of one job in different phases never run at once, unless one is awaited by a later one.
        channels: the number of parts into which the buffer is cut; each part crosses the network by its own rail.
        qps: the QPs of each connection; ``None``: those of the job.
        waits: what it waits for within its phase, and the phase that waits for it.
        protocol: that of its packets; ``None``: that of the job.
        priority: class of its packets (``model.priority``); ``None``: that of the job.
    """

    name: str
    op: Op
    ranks: tuple[int, ...]
    bytes: int
    algorithm: Algorithm | None = None
    phase: int = 0
    channels: int | None = None
    qps: QueuePairs | None = None
    waits: Waits = FOR_COMPUTING
    protocol: Protocol | None = None
    priority: int | None = None


_STATED_BY = {
    PortKind.ROCE: "udp_src",
    PortKind.TCP_TO: "dst_port",
    PortKind.TCP_FROM: "src_port",
    PortKind.UDP_TO: "dst_port",
}
"""Members of a flow in a document by what they make known."""


@dataclass(frozen=True, eq=False)
class FlowList:
    """F flows given individually.

    Attributes:
        src: [F] host name of the sender.
        dst: [F] host name of the receiver.
        bytes: [F].
        collective: [F] name of the collective that each belongs to.
        udp_src: [F] UDP source port, 0 where none is given; of other protocols than RoCEv2 the code of
            ``model.flow_ports``.
        qp_ports: flow index -> UDP source port of each of its QPs, for flows that state them.
    """

    src: tuple[str, ...] = ()
    dst: tuple[str, ...] = ()
    bytes: Int64Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    collective: tuple[str, ...] = ()
    udp_src: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    qp_ports: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def claims(self) -> tuple[IntArray, IntArray, list[str]]:
        """Return flow index and ``udp_src`` of each stated port, and the field that states it."""
        if not self.src:
            none = np.zeros(0, dtype=np.int32)
            return none, none, []
        rows = [
            (i, int(self.udp_src[i]), f"flows[{i}].{_STATED_BY[kind_of(int(self.udp_src[i]))]}")
            for i in np.flatnonzero(states_port(self.udp_src)).tolist()
        ]
        for i, ports in self.qp_ports.items():
            rows += [(i, port, f"flows[{i}].qp_ports[{qp}]") for qp, port in enumerate(ports)]
        table = np.array([row[:2] for row in rows], dtype=np.int32).reshape(-1, 2)
        return table[:, 0], table[:, 1], [row[2] for row in rows]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Bytes [N, N] that host i (row) sends to host j (column), as one collective."""

    hosts: tuple[str, ...]
    bytes: Int64Array
    collective: str


@dataclass(frozen=True, eq=False)
class Job:
    """A job; ``workload.job_file`` makes it from a document and validates it, this class does not.

    Flows and the matrix that name a collective of ``collectives`` are part of it; other names are separate
    collectives.

    Attributes:
        weight: the job's share against others where they compete: against all others, or those of its tenant.
        hosts: ``hosts[i]`` is where rank i runs.
        ports_known: whether the UDP source port of each flow can be known.
        pxn: whether a rank's data may leave its server by another NIC of it, reached over NVLink.
        timing: how the job computes between its collectives; ``None``: it sends all the time.
        phases: of collectives that only flows or the matrix name; 0 where none is given.
        qps: the QPs of each connection; ``None``: the job does not say, and the default of its reader counts.
        waits: of collectives that only flows or the matrix name, where it is not the default.
        protocol: that of the packets of collectives and of the matrix.
        tenant: whose job it is; ``None``: of no tenant.
        order: whether receivers take the packets of a flow in any order.
        priority: class of the packets of collectives that state none (``model.priority``).
        priorities: of collectives that only flows, the matrix or the model name, where they have a class of their own.
    """

    name: str
    weight: float = 1.0
    hosts: tuple[str, ...] = ()
    collectives: tuple[CollectiveCall, ...] = ()
    flows: FlowList = field(default_factory=FlowList)
    matrix: Matrix | None = None
    ports_known: bool = True
    pxn: bool = True
    timing: JobTiming | None = None
    phases: Mapping[str, int] = field(default_factory=dict)
    qps: QueuePairs | None = None
    waits: Mapping[str, Waits] = field(default_factory=dict)
    protocol: Protocol = ROCE
    tenant: str | None = None
    order: PacketOrder = KEPT
    priority: int = 0
    priorities: Mapping[str, int] = field(default_factory=dict)

    def protocol_of(self, call: CollectiveCall) -> Protocol:
        """Return the protocol of the packets of one of the job's collectives."""
        return call.protocol or self.protocol

    @property
    def phase_by_name(self) -> dict[str, int]:
        """The phase of each collective that has one; the others are in phase 0."""
        return {**self.phases, **{call.name: call.phase for call in self.collectives}}

    def priority_of(self, name: str) -> int:
        """Return the class of priority of a collective."""
        return self.priority_by_name.get(name, self.priority)

    @property
    def priority_by_name(self) -> dict[str, int]:
        """The class of each collective that has one of its own."""
        described = {call.name: call.priority for call in self.collectives if call.priority is not None}
        return {**described, **self.priorities}

    @property
    def waits_by_name(self) -> dict[str, Waits]:
        """What each collective waits for that does not wait for the computing of its phase alone."""
        described = {call.name: call.waits for call in self.collectives if call.waits != FOR_COMPUTING}
        return {**self.waits, **described}

    @property
    def collective_names(self) -> tuple[str, ...]:
        """Every collective's name once: the described ones, then others that flows or the matrix name."""
        names = dict.fromkeys(call.name for call in self.collectives)
        names.update(dict.fromkeys(self.flows.collective))
        if self.matrix is not None:
            names[self.matrix.collective] = None
        return tuple(names)
