"""Sightings from the files of NCCL Inspector, read once or while they grow.

Edges come from the importer (``read_connections``): rings and trees of NCCL's log where one is given, else one ring in
the order of ranks. It reads one record of each kind of operation, so a file of any length costs no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.nccl import read_connections
from controller.workload.importers.nccl.operations import OperationKey, RecordedOperation, operation_of
from controller.workload.importers.nccl.records import CONTEXT, RecordReader
from controller.workload.importers.nccl.tallies import QpTally, RankConnection, Tallies
from controller.workload.importers.streams import text_source
from controller.workload.placement.placement import rename_hosts

SUFFIX = ".log"
"""Of the Inspector's files in a folder."""

RECEIVE = "Recv"
"""The operation of which each record has one of ``Send`` at the peer."""


class GrowingFile:
    """The whole lines of a file that another process writes."""

    def __init__(self, path: Path) -> None:
        """Begin before its first line."""
        self.path = path
        self._at, self._number = 0, 0
        self._records = RecordReader()

    def records(self) -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the place and the content of each record that was not read yet.

        Raises:
            InputError: the file cannot be read, or a record is broken.
        """
        try:
            with self.path.open("rb") as stream:
                stream.seek(self._at)
                for line in stream:
                    if not line.endswith(b"\n"):
                        return  # the rest is still to be written
                    self._at += len(line)
                    self._number += 1
                    where = f"{self.path}:{self._number}"
                    record = self._records.read(where, line.decode("utf-8", "replace"))
                    if record is not None:
                        yield where, record
        except OSError as error:
            raise InputError(error.strerror or str(error), source=str(self.path)) from None


class InspectorFeeder:
    """Reads new records at each ``step`` and returns their tallies.

    An operation counts once a record of each rank of its communicator was seen: before, its edges are not known.

    Attributes:
        waiting: number of operations that wait for records of other ranks.
        left_out: number of operations that were too old.
        notes: of the importer, each once.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        logs: Callable[[], Sequence[Source]],
        request: ImportRequest,
        hosts: Sequence[str] | None,
    ) -> None:
        """Begin without records.

        Args:
            paths: files of the Inspector, and folders of such files.
            logs: opens the files of NCCL's log.
            request: has the fabric or the inventory, if they tell the hosts of NICs.
            hosts: hosts of the fabric by rank; ``None``: ``request`` tells them.
        """
        self.waiting = self.left_out = 0
        self.notes: dict[str, None] = {}
        self._paths, self._logs, self._request, self._hosts = paths, logs, request, hosts
        self._files: dict[Path, GrowingFile] = {}
        self._tallies = Tallies()
        self._sample: dict[OperationKey, str] = {}
        self._connected: set[OperationKey] = set()
        self._members: dict[tuple[int, int], str] = {}
        self._n_ranks: dict[int, int] = {}
        self._n_seen: dict[int, int] = {}
        self._waiting: list[RecordedOperation] = []

    def step(self, since: float = 0.0) -> list[QpTally]:
        """Read what is new and return its tallies in order of time.

        Args:
            since: seconds since 1970; operations that ended before are left out.

        Raises:
            InputError: names the file, the line and the field; or a rank's host is not known.
        """
        for file in self._all_files():
            for where, record in file.records():
                operation = operation_of(where, record)
                if operation is not None:
                    self._take(operation, record, since)
        ready = [each for each in self._waiting if self._is_whole(each.key)]
        self._waiting = [each for each in self._waiting if each.end >= since and not self._is_whole(each.key)]
        self.waiting = len(self._waiting)
        if any(each.key not in self._connected for each in ready):
            self._connect()
        ready.sort(key=lambda each: (each.end, each.number))
        tallies = [tally for each in ready for tally in self._tallies.add(each)]
        return sorted(tallies, key=lambda tally: tally.at)

    def _all_files(self) -> list[GrowingFile]:
        for path in self._paths:
            try:
                files = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
            except OSError as error:
                raise InputError(error.strerror or str(error), source=str(path)) from None
            for each in files:
                self._files.setdefault(each, GrowingFile(each))
        return list(self._files.values())

    def _take(self, operation: RecordedOperation, record: dict[str, object], since: float) -> None:
        key = operation.key
        if (key.communicator, key.rank) not in self._members:
            self._members[key.communicator, key.rank] = _line(record, CONTEXT)
            self._n_ranks[key.communicator] = operation.n_ranks
            self._n_seen[key.communicator] = self._n_seen.get(key.communicator, 0) + 1
        if key.name == RECEIVE:
            return  # its sender has a record, too
        if key not in self._sample:
            self._sample[key] = _line(record, (*CONTEXT, "coll_perf", "p2p_perf"))
        if operation.end >= since:
            self._waiting.append(operation)
        else:
            self.left_out += 1

    def _is_whole(self, key: OperationKey) -> bool:
        return self._is_known(key.communicator)

    def _is_known(self, communicator: int) -> bool:
        """Return whether a record of each rank was seen."""
        return self._n_seen[communicator] >= self._n_ranks[communicator]

    def _connect(self) -> None:
        """Find the edges of all kinds of operations of whole communicators; those of each algorithm by themselves."""
        whole = {key: line for key, line in self._sample.items() if self._is_whole(key)}
        members = [line for (communicator, _), line in self._members.items() if self._is_known(communicator)]
        logs = [_without_operations(log) for log in self._logs()]
        connections: list[RankConnection] = []
        for algorithm in dict.fromkeys(key.algorithm for key in whole):
            own = [line for key, line in whole.items() if key.algorithm == algorithm]
            records = text_source("records of NCCL Inspector", "".join(f"{line}\n" for line in (*members, *own)))
            imported, operations = read_connections([*logs, records], self._request)
            self.notes |= dict.fromkeys((*imported.warnings, *imported.notes))
            job = self._on_hosts(imported)
            for src, dst, each in zip(job.flows.src, job.flows.dst, operations, strict=True):
                if src != dst:
                    keys = tuple(key._replace(algorithm=algorithm) for key in each.keys)
                    connections.append(RankConnection(src, dst, keys, each.per_byte))
        self._tallies.connect(connections)
        self._connected = set(whole)

    def _on_hosts(self, imported: Imported) -> Job:
        """Return the job on hosts of the fabric."""
        job = imported.job
        if imported.placed:
            return job
        made_up = job.hosts or provisional_hosts(imported.ranks)
        if self._hosts is None:
            raise InputError(
                f"is needed: {len(made_up)} hosts of the fabric in the order of {made_up[0]} to {made_up[-1]}; or give "
                "--inventory or --fabric",
                field="--hosts",
            )
        if len(self._hosts) < len(made_up):
            raise InputError(f"{len(made_up)} are needed", field="--hosts", value=len(self._hosts))
        return rename_hosts(job, dict(zip(made_up, self._hosts, strict=False)))


def _without_operations(log: Source) -> Source:
    """Return a log with empty lines in place of those of operations (COLL), which count in place of records."""
    with log.open() as stream:
        lines = (b"" if b" opCount " in line else line.rstrip(b"\r\n") for line in stream)
        return text_source(log.name, b"\n".join(lines).decode("utf-8", "replace"))


def _line(record: Mapping[str, object], members: Sequence[str]) -> str:
    """Return a record with some of its members, as the Inspector writes it: the header first."""
    return orjson.dumps({name: record[name] for name in members if name in record}).decode()
