"""Processes with equal hostname and process id, as in containers, distinguished by the files that they write.

NCCL rejects two ranks of one communicator on one GPU. So a line that makes the same GPU of apparently the same
process another rank of the same communicator is from another process. If it is in another file, so are all lines of
that file with this hostname and process id; if it is in the same file, the other lines cannot be assigned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from controller.model.errors import InputError
from controller.workload.importers.base import Source
from controller.workload.importers.nccl import lines as nccl
from controller.workload.importers.streams import lines

LINE = 1 << 16
"""Characters of a line that are read."""

_APART = 10**10
"""Difference between the numbers of processes with one id: larger than any id."""

_Process = tuple[str, int]
_Place = tuple[str, int, int, tuple[int, int]]
"""Hostname, process, GPU, communicator."""


@dataclass
class Containers:
    """The observed ranks of each process.

    Attributes:
        source: the file that is being read.
        numbers: numbers of the processes of this file, by hostname and id.
        before: the processes of earlier files.
        ranks: rank, and ``file:line``, of each place.
    """

    source: Source | None = None
    numbers: dict[_Process, int] = field(default_factory=dict)
    before: set[_Process] = field(default_factory=set)
    ranks: dict[_Place, tuple[int, str]] = field(default_factory=dict)

    def begin(self, source: Source) -> None:
        """Begin the lines of another file."""
        self.before |= self.numbers.keys()
        self.source, self.numbers = source, {}

    def of_process(self, thread: nccl.Thread) -> nccl.Thread:
        """Return the thread; if an earlier file has the process, with a number in place of its process id."""
        key = thread.host, thread.pid
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = self._number(key) if key in self.before else thread.pid
        return thread if number == thread.pid else thread._replace(pid=number)

    def see(self, where: str, thread: nccl.Thread, row: nccl.Init) -> None:
        """Record a rank of a process returned by ``of_process``.

        Raises:
            InputError: two processes with one hostname and id write to one file.
        """
        place = _place(thread.host, thread.pid, thread, row)
        rank, first = self.ranks.setdefault(place, (row.rank, where))
        # Before 2.16 communicators have no identity: this may be another one of the same size.
        if rank != row.rank and row.id:
            raise InputError(
                f"GPU {place[2]} of {thread.host}:{thread.pid % _APART} is rank {rank} at {first} and rank {row.rank} "
                "here: containers share hostname and process ids; use a separate log file for each container "
                "(NCCL_DEBUG_FILE), or different hostnames",
                source=where,
            )

    def _number(self, key: _Process) -> int:
        """Find the number by looking ahead: a rank's lines may precede the one that names it."""
        rows = list(self._inits(key))
        number = key[1]
        while any(
            self.ranks.get(_place(key[0], number, thread, row), (row.rank, ""))[0] != row.rank for thread, row in rows
        ):
            number += _APART
        return number

    def _inits(self, key: _Process) -> Iterator[tuple[nccl.Thread, nccl.Init]]:
        assert self.source is not None
        for _, line in lines(self.source, limit=LINE, cut=True):
            parts = nccl.split(line) if " rank " in line else None
            if parts is None or (parts[0].host, parts[0].pid) != key:
                continue
            try:
                row = nccl.parse(parts[1])
            except ValueError:
                continue
            if isinstance(row, nccl.Init):
                yield parts[0], row


def _place(host: str, number: int, thread: nccl.Thread, row: nccl.Init) -> _Place:
    return host, number, row.gpu if row.gpu >= 0 else thread.gpu, (row.id, row.n_ranks)
