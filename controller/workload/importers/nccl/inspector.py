"""NCCL Inspector's records: a JSON object a line, of one operation of one rank.

``header`` {id, rank, n_ranks}, ``metadata`` {hostname, pid}, and ``coll_perf`` {coll, coll_sn, coll_msg_size_bytes,
from format 4.2 on coll_algo} or ``p2p_perf`` {p2p, p2p_peer, p2p_sn, p2p_msg_size_bytes} (plugins/profiler/inspector in
NCCL from 2.28 on, formats 4.0 to 4.3; ``records``). A size is one rank's elements times their size, as in the log. The
Inspector may miss operations: their number follows from the serial numbers, and the mean size is used for those missed.

Times are microseconds since 1970: with NCCL_INSPECTOR_DUMP_VERBOSE=1 of an operation's start (``event_trace_ts``), else
of the writing of its record (``dump_timestamp_us``), at most one interval of the Inspector's thread after its end.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from controller.model.errors import InputError
from controller.model.units import LARGEST_EXACT, MICROSECOND
from controller.workload.importers.nccl.communicators import Communicator
from controller.workload.importers.nccl.log import MAX_RANKS, MAX_SIZES, Member, Use
from controller.workload.importers.nccl.records import RecordReader
from controller.workload.importers.notes import Notes


@dataclass
class OperationSpan:
    """Operations of one kind: those seen, the span of their serial numbers, and number and time of each with a time."""

    seen: Use = field(default_factory=Use)
    first: int = 0
    last: int = 0
    algorithms: dict[str, int] = field(default_factory=dict)
    stamps: array[int] = field(default_factory=lambda: array("q"))

    @property
    def times(self) -> int:
        """Number of operations, including those missed."""
        return max(self.seen.times, self.last - self.first + 1)

    @property
    def bytes(self) -> int:
        """Bytes of all operations, with the mean size for those missed."""
        return -(-self.seen.bytes * self.times // self.seen.times)

    def measured(self, iterations: int) -> tuple[int, float]:
        """Return a number of iterations and the mean seconds of one; (0, 0.0) where the times do not tell them.

        The operations must be divisible among the iterations; the first operations of iterations are compared.
        """
        each, rest = divmod(self.times, iterations)
        if rest or iterations < 2:
            return 0, 0.0
        starts = {
            (number - self.first) // each: stamp
            for number, stamp in zip(self.stamps[::2], self.stamps[1::2], strict=True)
            if (number - self.first) % each == 0
        }
        if len(starts) < 2:
            return 0, 0.0
        low, high = min(starts), max(starts)
        return high - low, max(0, starts[high] - starts[low]) * MICROSECOND / (high - low)


@dataclass
class Witness:
    """The records of one rank's Inspector for one communicator, by (operation, peer)."""

    where: str
    host: str
    pid: int
    id: int
    rank: int
    n_ranks: int
    kinds: dict[tuple[str, int], OperationSpan] = field(default_factory=dict)


class Inspector:
    """A collector of records, which assigns them to communicators."""

    def __init__(self) -> None:
        """Create a collector without records."""
        self._witnesses: dict[tuple[int, int], Witness] = {}
        self._records = RecordReader()

    def __bool__(self) -> bool:
        """Return whether there is any record."""
        return bool(self._witnesses)

    def begin(self) -> None:
        """Begin another file."""
        self._records.begin()

    def add(self, where: str, line: str) -> bool:
        """Add a line; return whether it was a record of the Inspector.

        Raises:
            InputError: it is an invalid record.
        """
        record = self._records.read(where, line)
        if record is None:
            return False
        try:
            self._take(where, record)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError("this is not a record of NCCL Inspector", source=where, value=line[:60]) from None
        return True

    def _take(self, where: str, record: dict[str, Any]) -> None:
        header, metadata = record["header"], record["metadata"]
        key = (int(header["id"], 16), _whole(header["rank"]))
        n_ranks = _whole(header["n_ranks"])
        if not key[1] < n_ranks <= MAX_RANKS:
            raise ValueError(header)
        witness = self._witnesses.get(key)
        if witness is None:
            host = str(metadata["hostname"])
            witness = Witness(where, host.partition(".")[0], _whole(metadata["pid"]), *key, n_ranks)
            self._witnesses[key] = witness
        if "coll_perf" in record:
            row, name, peer = record["coll_perf"], "coll", -1
        elif "p2p_perf" in record:
            row, name = record["p2p_perf"], "p2p"
            peer = _whole(row["p2p_peer"])
        else:
            return
        kind = witness.kinds.get((str(row[name]), peer))
        number = _whole(row[f"{name}_sn"])
        if kind is None:
            if len(witness.kinds) >= MAX_SIZES:
                raise ValueError(row)
            kind = witness.kinds[str(row[name]), peer] = OperationSpan(first=number, last=number)
        kind.seen.times += 1
        kind.seen.bytes += _whole(row[f"{name}_msg_size_bytes"])
        kind.first, kind.last = min(kind.first, number), max(kind.last, number)
        stamp = row.get("event_trace_ts", {}).get(f"{name}_start_ts", metadata.get("dump_timestamp_us"))
        if stamp is not None:
            kind.stamps.extend((number, _whole(stamp)))
        algorithm = str(row.get("coll_algo", "")).lower()
        if len(kind.algorithms) < 16 or algorithm in kind.algorithms:
            kind.algorithms[algorithm] = kind.algorithms.get(algorithm, 0) + 1

    def period_seconds(self, iterations: int) -> float:
        """Return the mean time of an iteration; 0 where the records do not tell it.

        Of all kinds of collectives, the one with times of the largest number of iterations counts.
        """
        kinds = (kind for witness in self._witnesses.values() for (_, peer), kind in witness.kinds.items() if peer < 0)
        return max((kind.measured(iterations) for kind in kinds), default=(0, 0.0))[1]

    def join(self, communicators: list[Communicator], notes: Notes) -> None:
        """Assign the records to communicators; communicators that no log names are created."""
        by_id = {one.id: one for one in communicators if one.id}
        best: dict[int, Witness] = {}
        for witness in self._witnesses.values():
            one = by_id.get(witness.id) or _by_process(communicators, witness)
            if one is None:
                one = by_id[witness.id] = Communicator(f"c{len(communicators)}", witness.n_ranks, witness.id)
                communicators.append(one)
            elif one.n_ranks != witness.n_ranks:
                raise InputError(
                    f"communicator {one.name} has {one.n_ranks} ranks, see {one.first.where}",
                    source=witness.where,
                    value=witness.n_ranks,
                )
            by_id.setdefault(witness.id, one)
            if witness.rank not in one.members:
                one.members[witness.rank] = Member(
                    witness.where,
                    witness.host,
                    witness.pid,
                    gpu=0,
                    rank=witness.rank,
                    n_ranks=witness.n_ranks,
                    complete=True,
                )
            self._pairs(one, witness, notes)
            # All ranks of a collective see the same: the one with most operations represents all.
            first = best.get(id(one))
            if first is None or _seen(witness) > _seen(first):
                best[id(one)] = witness
        for one in communicators:
            if id(one) in best:
                self._collectives(one, best[id(one)], notes)

    def _collectives(self, one: Communicator, witness: Witness, notes: Notes) -> None:
        for (name, peer), kind in witness.kinds.items():
            if peer < 0:
                algorithm = max(kind.algorithms, key=lambda key: kind.algorithms[key])
                use = Use(kind.times, kind.bytes)
                one.uses[name, 0, -1] = ("" if algorithm == "unknown" else algorithm), use
                _note_missed(one, name, kind, notes)

    def _pairs(self, one: Communicator, witness: Witness, notes: Notes) -> None:
        for (name, peer), kind in witness.kinds.items():
            if name == "Send" and 0 <= peer < one.n_ranks:
                one.pairs[witness.rank, peer] = Use(kind.times, kind.bytes)
                _note_missed(one, f"Send to {peer}", kind, notes)


def _by_process(communicators: list[Communicator], witness: Witness) -> Communicator | None:
    """Return the communicator without an identity in which this process has this rank, if there is only one."""
    candidates = [
        one
        for one in communicators
        if not one.id
        and one.n_ranks == witness.n_ranks
        and witness.rank in one.members
        and one.members[witness.rank].process == (witness.host, witness.pid)
    ]
    return candidates[0] if len(candidates) == 1 else None


def _note_missed(one: Communicator, name: str, kind: OperationSpan, notes: Notes) -> None:
    if kind.times > kind.seen.times:
        notes.add(
            "operations with missing records",
            f"{one.name}: the Inspector saw {kind.seen.times} of {kind.times} {name}; their mean is used for the "
            "others",
        )


def _seen(witness: Witness) -> int:
    return sum(kind.seen.times for (_, peer), kind in witness.kinds.items() if peer < 0)


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_EXACT:
        raise ValueError(value)
    return value
