"""One iteration of a job on planned circuits in the packet engine (``emulation.packets``).

A server is a host with a switch of its own, which forwards for others; a circuit is a link between two such switches.
Acknowledgements go back by the way that data came, over links of their own: they are half a percent of the bytes, and
do not take the circuits' time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.model.paces import HEADERS
from controller.model.units import GBIT
from emulation.packets.engine import run_packets
from emulation.packets.input_file import TIMEOUT_ROUND_TRIPS, PacketSpread
from emulation.packets.settings import ACK_BYTES, BITS, CongestionControl, PacketSettings

SETTINGS = PacketSettings(control=CongestionControl.WINDOW, queue=4.0)
"""Windows are constant, since plans say how much each circuit carries: there is no congestion to control."""


@dataclass(frozen=True)
class PacketFlow:
    """The bytes that one server sends another by one way in one phase.

    Attributes:
        src, dst: servers of the shard.
        links: numbers of the circuits on the way.
        bytes: of an iteration.
        runs: how often a part of them is sent: those of a ring wait for each other.
        group: flows of one group begin together.
    """

    src: int
    dst: int
    links: tuple[int, ...]
    bytes: float
    runs: int
    group: int


@dataclass(frozen=True, eq=False)
class PacketIteration:
    """The result of a run.

    Attributes:
        seconds: of the iteration on packets.
        planned_seconds: by the plan.
        expected_seconds: by the plan, with the headers of packets.
        sent_again, trimmed: packets.
    """

    seconds: float
    planned_seconds: float
    expected_seconds: float
    sent_again: int
    trimmed: int


@dataclass(frozen=True)
class _NamedJob:
    name: str


@dataclass(frozen=True)
class _Answers:
    """Answers the engine's question for paths and paces, which do not change."""

    lines: Sequence[str]
    jobs: Sequence[_NamedJob]

    def answer(self, cause: str, seconds: float, present: Sequence[int]) -> Sequence[str]:
        """Return all rows when the job arrives, and nothing later."""
        return self.lines if cause == "arrival" else ()


def _rows(plan: ShardPlan, flows: Sequence[PacketFlow], gbps: float, growth: float) -> Iterator[str]:
    """Yield the way and the pace of each flow.

    Messages keep the rate at which they end in time, so that rings have the rest of each circuit.
    """
    m, numbers = plan.succ.shape[1], _link_numbers(plan)
    fullest, phase_of = plan.loads.max(axis=(1, 2)), {group: phase for group, phase, _ in _groups(plan)}
    for number, flow in enumerate(flows):
        links = [flow.src, *(numbers[link] for link in flow.links), m + flow.dst]
        most = float(fullest[phase_of[flow.group]])
        pace = flow.bytes * growth * gbps * BITS / most if flow.runs == 1 else 0.0
        yield f"row {number} 0 1.0 {pace!r} 1 {len(links)} {' '.join(map(str, links))}"


def _link_numbers(plan: ShardPlan) -> dict[int, int]:
    """Return the engine's number of the link of each circuit (k m + u); the links of hosts come before."""
    m = plan.succ.shape[1]
    live = np.flatnonzero((plan.succ != np.arange(m)).reshape(-1)).tolist()
    return {circuit: 2 * m + 2 * i for i, circuit in enumerate(live)}


def _groups(plan: ShardPlan) -> list[tuple[int, int, int]]:
    """Return (group, phase, ring) of all groups: those of messages first (-1), then one for each ring."""
    phases = len(plan.shard.demand.messages)
    rings = [(phases + i, plan.shard.demand.groups[ring.group].slot, i) for i, ring in enumerate(plan.routes.rings)]
    return [*((phase, phase, -1) for phase in range(phases)), *rings]


def packet_flows(plan: ShardPlan) -> list[PacketFlow]:
    """Return the flows of an iteration; those of a ring go around it in 2 (n - 1) runs."""
    demand, routes = plan.shard.demand, plan.routes
    phases = len(demand.messages)
    flows: list[PacketFlow] = []

    def by_trees(src: int, dst: int, size: float, phase: int, runs: int, group: int) -> Iterator[PacketFlow]:
        shares = routes.shares[phase if len(routes.shares) > 1 else 0, :, dst]
        for tree, share in enumerate(shares.tolist()):
            if share > 0:
                yield PacketFlow(src, dst, _way(plan, tree, src, dst), size * share, runs, group)

    for phase, matrix in enumerate(demand.messages):
        for src, dst in np.argwhere(matrix > 0).tolist():
            flows += by_trees(src, dst, float(matrix[src, dst]), phase, 1, phase)
    for i, ring in enumerate(routes.rings):
        group, n, m = demand.groups[ring.group], len(ring.order), plan.succ.shape[1]
        for position, src in enumerate(ring.order):
            dst, size = ring.order[(position + 1) % n], ring.share * group.edge_bytes
            if ring.layer == LOOSE:
                flows += by_trees(src, dst, size, group.slot, 2 * (n - 1), phases + i)
            else:
                flows.append(PacketFlow(src, dst, (ring.layer * m + src,), size, 2 * (n - 1), phases + i))
    return flows


def _way(plan: ShardPlan, tree: int, src: int, dst: int) -> tuple[int, ...]:
    m, links, at = plan.succ.shape[1], [], src
    while at != dst:
        layer = int(plan.routes.trees[tree, dst, at])
        links.append(layer * m + at)
        at = int(plan.succ[layer, at])
    return tuple(links)


def write_circuits(
    plan: ShardPlan, gbps: float, flows: Sequence[PacketFlow], settings: PacketSettings = SETTINGS
) -> str:
    """Return the input of the packet engine (docs/reference/referee.md)."""
    d, m = plan.succ.shape
    longest = 2 + max(len(flow.links) for flow in flows)
    round_trip = longest * (2 * settings.cable_seconds + (settings.packet_bytes + ACK_BYTES) * GBIT / gbps)
    product = round_trip * gbps / GBIT
    window = product / settings.packet_bytes + settings.ack_every
    room = settings.queue * product * d
    values = {
        "mtu": settings.packets.mtu,
        "headers": HEADERS + settings.packets.growth,
        "ack_bytes": ACK_BYTES,
        "ack_every": settings.ack_every,
        "queue_bytes": round(room),
        "mark_from": round(room),
        "mark_all": round(room),
        "window": window,
        "most_window": 1.5 * window,
        "timeout": TIMEOUT_ROUND_TRIPS * round_trip,
        "until": 1e6,
        "bin": 0.0,
        "seed": 0,
        "record_transfers": 0,
        "asks": 1,
        "control": settings.control,
        "recovery": settings.recovery,
    }
    lines = [f"set {name} {value}" for name, value in values.items()]
    rate = gbps * BITS
    # Memory and processors of a server carry more than its NICs.
    lines += [f"cable {u} {m + u} {u} {m + u} {d * rate!r} {settings.cable_seconds!r} 1" for u in range(m)]
    for circuit, number in _link_numbers(plan).items():
        layer, u = divmod(circuit, m)
        v = int(plan.succ[layer, u])
        lines.append(f"cable {m + u} {m + v} {number} {number + 1} {rate!r} {settings.cable_seconds!r} 1")
    lines.append("job 0.0 1 0.0")
    groups = _groups(plan)
    for group, phase, ring in groups:
        runs = 1 if ring < 0 else 2 * (len(plan.routes.rings[ring].order) - 1)
        before = [other for other, earlier, _ in groups if earlier == phase - 1]
        waits = " ".join(map(str, (len(before), *before)))
        lines.append(f"group 0 {runs} 0.0 {group} {int(runs > 1)} {waits}")
    for flow in flows:
        key = int.from_bytes(hashlib.blake2b(repr(flow).encode(), digest_size=7).digest())
        lines.append(f"flow {key} {PacketSpread.PINNED} {flow.src} {flow.dst}")
    lines += [
        f"transfer {flow.group} {number} {max(1, round(flow.bytes / flow.runs))}" for number, flow in enumerate(flows)
    ]
    return "\n".join(lines) + "\n"


def on_packets(plan: ShardPlan, gbps: float, settings: PacketSettings = SETTINGS) -> PacketIteration:
    """Simulate an iteration on packets.

    Raises:
        LabError: the engine is not built, or has failed.
    """
    flows = packet_flows(plan)
    growth = settings.packet_bytes / settings.packets.mtu
    answers = _Answers([*_rows(plan, flows, gbps, growth)], [_NamedJob(", ".join(plan.shard.jobs))])
    results = run_packets(write_circuits(plan, gbps, flows, settings), answers, core=settings.core)
    return PacketIteration(
        results.epochs[0].ended - results.epochs[0].began,
        plan.seconds,
        plan.seconds * growth,
        int(results.sent_again.sum()),
        int(results.trimmed.sum()),
    )
