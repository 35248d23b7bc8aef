"""What every importer takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from controller.model.fabric import Fabric
from controller.model.job import Job


@dataclass(frozen=True)
class Source:
    """One input: a file, a member of an archive, or a text from a request.

    Attributes:
        name: for people and for error messages.
        open: a new stream from the beginning, already uncompressed; reading it may move a progress bar.
        size: bytes that ``open`` will read from disk, or ``None``.
    """

    name: str
    open: Callable[[], BinaryIO]
    size: int | None = None


@dataclass(frozen=True)
class ImportRequest:
    """What the user said beside the files.

    Attributes:
        name: of the job; ``None``: the importer takes one from the input or the format.
        fabric: where the user gave one.
        inventory: (server name as the input spells it, NIC name or index as text, ``*`` for all of them) -> host of
            the fabric; ``inventory.load_inventory`` reads one.
        bytes: of a collective whose size the input does not tell, where the user gave one.
        iterations: of the training loop that a log covers; bytes are told for one.
    """

    name: str | None = None
    fabric: Fabric | None = None
    inventory: Mapping[tuple[str, str], str] = field(default_factory=dict)
    bytes: int | None = None
    iterations: int = 1


@dataclass(frozen=True)
class Imported:
    """What was read.

    Attributes:
        job: on hosts of the fabric where the input tells them (``placed``), else on the made-up hosts
            ``rank0 .. rankN-1``, which a placement renames.
        ranks, groups, collectives: how many the input had.
        notes: what was left out or is doubtful, a sentence each, with file and line.
        fabric: a fabric document (as in a fabric file) where the input describes one.
    """

    job: Job
    placed: bool
    ranks: int
    groups: int
    collectives: int
    notes: tuple[str, ...] = ()
    fabric: Mapping[str, object] | None = None


class Importer(Protocol):
    """Reads all sources of one format as one job.

    Raises:
        InputError: with the source's name, the line or field, and what is wrong.
    """

    def __call__(self, sources: Sequence[Source], request: ImportRequest) -> Imported: ...


def provisional_hosts(n: int) -> tuple[str, ...]:
    """Names of the hosts of ranks that have no place yet."""
    return tuple(f"rank{i}" for i in range(n))
