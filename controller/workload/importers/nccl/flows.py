"""Flows from rings, trees and bytes.

A connection of a channel is one flow (one queue pair, for routing): it exists for each channel,
and it carries the data of the operations of one kind over it in one iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from controller.model.errors import InputError
from controller.workload.importers.nccl.communicators import Communicator
from controller.workload.importers.nccl.ends import ConnectionEnd, Ends
from controller.workload.importers.nccl.lines import NOBODY
from controller.workload.importers.nccl.topology import NcclTopology
from controller.workload.importers.nccl.work import CommunicatorWork, OperationKind
from controller.workload.importers.notes import Notes

MAX_EDGES = 4_000_000
"""Most edges of one kind of operation: a larger number of rings, trees and pairs is an error of the input."""

_P2P = 1


class Flow(NamedTuple):
    """A connection of a channel; its ranks are those of its communicator."""

    collective: str
    channel: int
    src: int
    dst: int
    sender: ConnectionEnd
    receiver: ConnectionEnd


def flows_of(
    one: Communicator, work: CommunicatorWork, topology: NcclTopology, ends: Ends, notes: Notes
) -> tuple[dict[Flow, Fraction], list[str]]:
    """Return the bytes of each flow on the network, and the names of all collectives, including those without flows."""
    flows: dict[Flow, Fraction] = {}
    names: dict[str, None] = {}
    for kind, size in work.collectives.items():
        name = f"{one.name}-{kind.op}" + ("-tree" if kind.algorithm == "tree" else "")
        names[name] = None
        for channel, src, dst, part in _edges(one, kind, size, topology, notes):
            _add(flows, name, channel, src, dst, ends.edge(one, 0, channel, src, dst), part)
    if work.pairs:
        name = f"{one.name}-send_recv"
        names[name] = None
        for (src, dst), size in work.pairs.items():
            channels = ends.channels(one, src, dst)
            for channel in channels:
                _add(flows, name, channel, src, dst, ends.edge(one, _P2P, channel, src, dst), size / len(channels))
    for flow in [flow for flow in flows if not (flow.sender.is_known and flow.receiver.is_known)]:
        del flows[flow]
        unknown = flow.dst if flow.sender.is_known else flow.src
        notes.warn(
            f"{flow.collective}: the rank of the job that corresponds to rank {unknown} is unknown; its flows are "
            "left out"
        )
    return flows, list(names)


def _add(
    flows: dict[Flow, Fraction],
    name: str,
    channel: int,
    src: int,
    dst: int,
    ends: tuple[ConnectionEnd, ConnectionEnd] | None,
    size: Fraction,
) -> None:
    # Ranks that share a NIC do not send over it to each other.
    if ends is not None and (ends[0] != ends[1] or not ends[0].is_known):
        flow = Flow(name, channel, src, dst, *ends)
        flows[flow] = flows.get(flow, Fraction(0)) + size


def _edges(
    one: Communicator, kind: OperationKind, size: Fraction, topology: NcclTopology, notes: Notes
) -> Iterator[tuple[int, int, int, Fraction]]:
    """Yield channel, sender, receiver, bytes; the formulas of ``workload.collectives`` on the log's edges."""
    n = one.n_ranks
    if kind.op in ("all_to_all", "gather", "scatter"):
        yield from _direct(one, kind, size)
        return
    by_tree = kind.algorithm == "tree"
    if by_tree and not topology.trees:
        notes.warn(f"{one.name}: no tree is complete; its all-reduces by trees are counted as rings")
        by_tree = False
    ways = topology.trees if by_tree else topology.rings
    if not ways:
        text = (
            f"{one.name}: no ring is complete (log NCCL_DEBUG_SUBSYS=INIT,GRAPH on all ranks); "
            "one ring in the order of ranks is assumed"
        )
        channels = {link.channel for member in one.members.values() for link in member.sends if link.kind == 0}
        if channels:
            # The log has connections without a flow.
            notes.warn(f"{text}, though {len(channels)} channels have connections over the network")
        elif one.missing:
            notes.warn(f"{text}; {len(one.missing)} of {n} ranks have no log")
        elif len({member.host for member in one.members.values()}) > 1:
            notes.warn(text)
        else:
            notes.once(text)
        ways = {0: tuple(range(n))}
    used = _used(kind, ways)
    if len(used) * n * (2 if by_tree else 1) > MAX_EDGES:
        raise InputError(f"communicator {one.name} has more than {MAX_EDGES} connections")
    share = size / len(used)
    for channel, way in used.items():
        if by_tree:
            for child, above in enumerate(way):
                if above != NOBODY:
                    yield channel, child, above, share
                    yield channel, above, child, share
        else:
            yield from _around(kind, channel, way, share)


def _used(kind: OperationKind, ways: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Return the channels of the operation, as far as their rings or trees are known."""
    if kind.channels is None:
        return ways
    low, high = kind.channels
    return {channel: way for channel, way in ways.items() if low <= channel <= high} or ways


def _around(
    kind: OperationKind, channel: int, ring: tuple[int, ...], share: Fraction
) -> Iterator[tuple[int, int, int, Fraction]]:
    n = len(ring)
    factor = {
        "all_reduce": Fraction(2 * (n - 1), n),
        "all_gather": Fraction(n - 1, n),
        "reduce_scatter": Fraction(n - 1, n),
    }
    for i, src in enumerate(ring):
        dst = ring[(i + 1) % n]
        # A broadcast goes once around and ends before its root, a reduction begins after its root and ends there.
        if (kind.op == "broadcast" and dst == kind.root) or (kind.op == "reduce" and src == kind.root):
            continue
        yield channel, src, dst, share * factor.get(kind.op, Fraction(1))


def _direct(one: Communicator, kind: OperationKind, size: Fraction) -> Iterator[tuple[int, int, int, Fraction]]:
    n = one.n_ranks
    if kind.op == "all_to_all" and n * (n - 1) > MAX_EDGES:
        raise InputError(f"communicator {one.name} has more than {MAX_EDGES} connections")
    others = range(n) if kind.op == "all_to_all" else [kind.root]
    for this in range(n):
        for other in others:
            if this != other:
                yield (0, this, other, size / n) if kind.op != "scatter" else (0, other, this, size / n)
