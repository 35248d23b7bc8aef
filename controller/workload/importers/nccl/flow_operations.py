"""Which operations send a flow: by communicator, sending rank and kind, as NCCL Inspector names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from controller.workload.importers.nccl.communicators import Communicator
from controller.workload.importers.nccl.flows import Flow
from controller.workload.importers.nccl.operations import NO_PEER, OperationKey
from controller.workload.importers.nccl.work import OPERATIONS, CommunicatorWork


class FlowOperations(NamedTuple):
    """The operations that send one flow.

    Attributes:
        keys: the operations of the sending rank, by every spelling; without an algorithm.
        per_byte: bytes that the flow sends for each byte of a record (one rank's elements).
    """

    keys: tuple[OperationKey, ...]
    per_byte: float


def operations_of(
    communicators: Sequence[Communicator],
    works: Sequence[CommunicatorWork],
    flows: Mapping[Flow, Fraction],
    order: Sequence[Flow],
) -> Iterator[FlowOperations]:
    """Yield the operations of some flows, in this order.

    Args:
        communicators: the communicators.
        works: what each of them does.
        flows: bytes of all flows.
        order: the flows to yield.
    """
    by_name = {one.name: (one, work) for one, work in zip(communicators, works, strict=True)}
    for flow in order:
        name, _, rest = flow.collective.partition("-")
        one, work = by_name[name]
        op = rest.removesuffix("-tree")
        if op == "send_recv":
            keys = (OperationKey(one.id, flow.src, "Send", flow.dst),)
            yield FlowOperations(keys, _ratio(flows[flow], work.pairs[flow.src, flow.dst]))
            continue
        spelled = [name for name, (ours, _) in OPERATIONS.items() if ours == op]
        is_part = OPERATIONS[spelled[0]][1]
        whole = sum((size for kind, size in work.collectives.items() if kind.op == op), Fraction(0))
        yield FlowOperations(
            tuple(OperationKey(one.id, flow.src, name, NO_PEER) for name in spelled),
            _ratio(flows[flow] * (one.n_ranks if is_part else 1), whole),
        )


def _ratio(size: Fraction, whole: Fraction) -> float:
    """Return the part of a whole; operations without bytes send nothing."""
    return float(size / whole) if whole else 0.0
