"""Operations that NCCL Inspector has recorded, with their times: what a rank sent, and when.

Of ``coll_perf`` and ``p2p_perf`` (``inspector``) this uses kind, peer, serial number, bytes (one rank's elements times
their size), and ``coll_exec_time_us`` or ``p2p_exec_time_us``, the time that the operation took. With
NCCL_INSPECTOR_DUMP_VERBOSE=1 an operation begins when the first of its kernels does (``event_trace_ts.kernel_events``
``kernel_start_ts``, else ``coll_start_ts``); without, it ended when its record was written (``dump_timestamp_us``), or
at most an interval of the Inspector's thread before. All times are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from controller.model.errors import InputError
from controller.model.units import LARGEST_EXACT, MICROSECOND
from controller.workload.importers.nccl.log import MAX_RANKS

NO_PEER = -1
"""In place of the peer of a collective."""


class OperationKey(NamedTuple):
    """Operations of one rank that send over the same connections.

    Attributes:
        communicator: its identifier.
        name: as NCCL spells it.
        peer: rank; ``NO_PEER`` for collectives.
        algorithm: in lower case; empty where it is not told.
    """

    communicator: int
    rank: int
    name: str
    peer: int
    algorithm: str = ""


class RecordedOperation(NamedTuple):
    """One operation of one rank.

    Attributes:
        n_ranks: of the communicator.
        number: serial number.
        bytes: of one rank's elements.
        begin, end: seconds since 1970.
    """

    key: OperationKey
    n_ranks: int
    number: int
    bytes: int
    begin: float
    end: float


def operation_of(where: str, record: Mapping[str, Any]) -> RecordedOperation | None:
    """Return the operation of a record with header and metadata; ``None``: it is a record of another kind.

    Raises:
        InputError: names the file and the line (``where``), and the field.
    """
    prefix = next((kind for kind in ("coll", "p2p") if f"{kind}_perf" in record), None)
    if prefix is None:
        return None
    fields = _Fields(where, record)
    row = f"{prefix}_perf"
    number, n_ranks = fields.whole("header.rank"), fields.whole("header.n_ranks")
    if not 0 < n_ranks <= MAX_RANKS:
        raise InputError(f"must be 1 to {MAX_RANKS}", source=where, field="header.n_ranks", value=n_ranks)
    if number >= n_ranks:
        raise InputError(f"the communicator has {n_ranks} ranks", source=where, field="header.rank", value=number)
    peer = fields.whole(f"{row}.p2p_peer") if prefix == "p2p" else NO_PEER
    if peer >= n_ranks:
        raise InputError(f"the communicator has {n_ranks} ranks", source=where, field=f"{row}.p2p_peer", value=peer)
    fields.text("metadata.hostname")
    fields.whole("metadata.pid")
    took = fields.whole(f"{row}.{prefix}_exec_time_us")
    algorithm = fields.text(f"{row}.coll_algo").lower() if fields.get(f"{row}.coll_algo") is not None else ""
    begin = _begin(fields, f"{row}.event_trace_ts", prefix)
    if begin is None:
        begin = fields.whole("metadata.dump_timestamp_us") - took
    return RecordedOperation(
        OperationKey(fields.hexadecimal("header.id"), number, fields.text(f"{row}.{prefix}"), peer, algorithm),
        n_ranks,
        fields.whole(f"{row}.{prefix}_sn"),
        fields.whole(f"{row}.{prefix}_msg_size_bytes"),
        begin * MICROSECOND,
        (begin + took) * MICROSECOND,
    )


def _begin(fields: _Fields, field: str, prefix: str) -> int | None:
    """Return the begin of the first kernel, or of the operation; ``None``: there is no trace."""
    if fields.get(field) is None:
        return None
    kernels = fields.get(f"{field}.kernel_events")
    rows = kernels if isinstance(kernels, list) else []
    starts = [row.get("kernel_start_ts") for row in rows if isinstance(row, dict)]
    # A kernel that was not seen has the time 0.
    known = [start for start in starts if isinstance(start, int) and start > 0]
    return min(known) if known else fields.whole(f"{field}.{prefix}_start_ts")


class _Fields:
    """Fields of a record by dotted paths, checked."""

    def __init__(self, where: str, record: Mapping[str, Any]) -> None:
        self._where, self._record = where, record

    def get(self, path: str) -> Any:
        """Return a field; ``None`` where there is none."""
        value: Any = self._record
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def whole(self, path: str) -> int:
        """Return a number that is at least 0."""
        value = self.get(path)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_EXACT:
            raise self._error(path, value, f"must be a whole number, 0 to {LARGEST_EXACT}")
        return value

    def text(self, path: str) -> str:
        """Return a text that is not empty."""
        value = self.get(path)
        if not isinstance(value, str) or not value:
            raise self._error(path, value, "must be a text")
        return value

    def hexadecimal(self, path: str) -> int:
        """Return the value of hexadecimal digits."""
        try:
            return int(self.text(path), 16)
        except ValueError:
            raise self._error(path, self.get(path), "must be a hexadecimal number") from None

    def _error(self, path: str, value: object, reason: str) -> InputError:
        if value is None:
            return InputError("is missing", source=self._where, field=path)
        return InputError(reason, source=self._where, field=path, value=value)
