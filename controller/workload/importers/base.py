"""The interface of importers: sources and options in, an imported job out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from controller.model.choices import protocol as protocols
from controller.model.dag import Dag
from controller.model.fabric import Fabric
from controller.model.job import Job


@dataclass(frozen=True)
class Source:
    """One input: a file, a member of an archive, or a text from a request.

    Attributes:
        name: the name in messages and errors.
        open: opens a new stream from the beginning, already uncompressed; reading it may move a progress bar.
        size: bytes that ``open`` will read from disk, or ``None``.
    """

    name: str
    open: Callable[[], BinaryIO]
    size: int | None = None


@dataclass(frozen=True)
class ImportRequest:
    """The user's options for an import.

    Attributes:
        name: the name of the job; ``None``: the importer takes one from the input or the format.
        fabric: the fabric, if the user gave one.
        inventory: (server name as the input spells it, NIC name or index as text, ``*`` for all of them) -> host of
            the fabric; ``inventory.load_inventory`` reads one.
        bytes: size of a collective without a size in the input, if the user gave one.
        iterations: number of iterations of the training loop in a log; bytes are reported for one.
        gbps: speed of cables without a speed in the files, if the user gave one.
        graph: whether the graph of tasks is needed, where it takes memory that the job does not.
        protocol: that of the packets of the job, which ``registry.importer`` gives it; importers need not look.
    """

    name: str | None = None
    fabric: Fabric | None = None
    inventory: Mapping[tuple[str, str], str] = field(default_factory=dict)
    bytes: int | None = None
    iterations: int = 1
    gbps: float | None = None
    graph: bool = False
    protocol: protocols.Protocol = protocols.ROCE


@dataclass(frozen=True)
class Measured:
    """The measured time of an operation in the input.

    Attributes:
        op: the operation, as in a job's collectives.
        ranks: number of ranks.
        bytes: S, as in a job's collectives.
        seconds: time of one operation.
        bus_gbps: bus bandwidth as nccl-tests defines it (doc/PERFORMANCE.md there), in Gbit/s.
    """

    op: str
    ranks: int
    bytes: int
    seconds: float
    bus_gbps: float


@dataclass(frozen=True)
class GraphRing:
    """An all-reduce in a graph: steps of as many messages as it has ranks, task after task.

    Attributes:
        first, end: its tasks are these numbers, without the last one.
        ranks: in the order of the ring. Task ``first + i`` is what ranks[i % n] sends.
    """

    first: int
    end: int
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        job: on hosts of the fabric where the input names them (``placed``), else on the provisional hosts
            ``rank0 .. rankN-1``, which a placement renames.
        ranks: number of ranks in the input.
        groups: number of groups in the input.
        collectives: number of collectives in the input.
        notes: parts left out or doubtful, a sentence each, with file and line.
        fabric: a fabric document (as in a fabric file) where the input describes one.
        warnings: parts of the input that the job lacks, and assumptions about its size; they are
            shown first.
        measured: times in the input.
        dag: dependencies of tasks, where the input has them; the job has the bytes of its messages.
        rings: the all-reduces of ``dag`` whose order may be changed.
    """

    job: Job
    placed: bool
    ranks: int
    groups: int
    collectives: int
    notes: tuple[str, ...] = ()
    fabric: Mapping[str, object] | None = None
    warnings: tuple[str, ...] = ()
    measured: tuple[Measured, ...] = ()
    dag: Dag | None = None
    rings: tuple[GraphRing, ...] = ()


class Importer(Protocol):
    """The signature of an importer, which reads all sources of one format as one job.

    Raises:
        InputError: with the source's name, the line or field, and the reason.
    """

    def __call__(self, sources: Sequence[Source], request: ImportRequest) -> Imported:
        """Read the sources as one job."""
        ...


def provisional_hosts(n: int) -> tuple[str, ...]:
    """Return the names of the hosts of ranks that are not placed yet."""
    return tuple(f"rank{i}" for i in range(n))
