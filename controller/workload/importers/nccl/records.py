"""Records of NCCL Inspector in the lines of a file, each with its communicator and its process.

In formats 4.0 to 4.2 every record has ``header`` and ``metadata``. From 4.3 on only the ``dump_stats`` record at the
begin of each dump of a communicator has them, and the records up to the next one belong to it (plugins/profiler/
inspector in NCCL, README.md and inspector_json.cc). A process writes to one file, HOSTNAME-pidPID.log.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from controller.model.errors import InputError

CONTEXT = ("header", "metadata")

_RECORD = re.compile(r'\s*\{\s*"(?:header|metadata|dump_stats|coll_perf|p2p_perf|proxy_trace)"')


class RecordReader:
    """Reads the records of one file after the other, line by line."""

    def __init__(self) -> None:
        """Begin at the begin of a file."""
        self._context: dict[str, Any] = {}

    def begin(self) -> None:
        """Begin at the begin of another file."""
        self._context = {}

    def read(self, where: str, line: str) -> dict[str, Any] | None:
        """Return the record with ``header`` and ``metadata``; ``None``: the line is none.

        Args:
            where: file and line, for errors.
            line: a whole line.

        Raises:
            InputError: the record is truncated, or has no header and follows none.
        """
        if _RECORD.match(line) is None:
            return None
        try:
            record: dict[str, Any] = orjson.loads(line)
        except ValueError:
            raise InputError("this record is truncated or not JSON", source=where) from None
        missing = [name for name in CONTEXT if name not in record]
        if missing and not self._context:
            raise InputError("is missing, and no dump_stats record precedes", source=where, field=missing[0])
        whole = {**self._context, **record}
        if "dump_stats" in record:
            self._context = {name: record[name] for name in CONTEXT if name in record}
        return whole
