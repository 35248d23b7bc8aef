"""GOAL schedules as LogGOPSim's binary (``Parser.hpp`` there), little endian, without padding.

A cookie of 8 bytes; after it the number of ranks (4), the most processors and NICs of a rank (1 each), and the begin
and end of each rank's part (8 each, counted from the end of the cookie). A part has its number of operations and of
roots (4 each), the roots (4 each), the operations, and the lists of those that wait for them (4 each). An operation is:
number of dependencies (4), its type (1), peer (4), bytes or nanoseconds (8), tag (4), processor (1), NIC (1), and for
the operations that wait for its end and for its start their number (4) and their place in the lists (4).
"""

from __future__ import annotations

import struct

from controller.workload.importers.base import Source
from controller.workload.importers.documents import content
from controller.workload.importers.goal.match import ANY, GoalSchedule

MAGIC = struct.pack("<Q", 4223)
MAX_SIZE = 2 << 30

_HEAD = struct.Struct("<IBB")
_SPAN = struct.Struct("<QQ")
_PART = struct.Struct("<II")
_OPERATION = struct.Struct("<IBIQIBBIIII")
_SPIN = 65
"""Additional bytes of LogGOPSim2 after each operation, for sPIN."""

_SEND, _RECEIVE, _CALC = 1, 2, 3
_ANY = 2**32 - 1


def read_binary(source: Source, schedule: GoalSchedule) -> None:
    """Add all ranks' operations.

    Raises:
        InputError: the file is cut, or an operation is not one of GOAL's text form.
    """
    data = memoryview(content(source, MAX_SIZE))[len(MAGIC) :]
    if len(data) < _HEAD.size:
        raise schedule.error("ends within its header", "byte 8")
    ranks, _, _ = _HEAD.unpack_from(data)
    schedule.ranks(ranks, "number of ranks")
    if len(data) < _HEAD.size + ranks * _SPAN.size:
        raise schedule.error("ends within its header", "byte 14")
    for rank in range(ranks):
        begin, end = _SPAN.unpack_from(data, _HEAD.size + rank * _SPAN.size)
        if not begin + _PART.size <= end <= len(data):
            raise schedule.error(f"is not within the file's {len(data)} bytes", f"rank {rank}", f"{begin}..{end}")
        _part(schedule, rank, data[begin:end])


def _part(schedule: GoalSchedule, rank: int, data: memoryview) -> None:
    count, roots = _PART.unpack_from(data)
    first = _PART.size + 4 * roots
    for extra in (0, _SPIN):
        size = _OPERATION.size + extra
        rows = _rows(data, first, count, size)
        if rows is not None:
            break
    else:
        raise schedule.error("its length does not fit its operations", f"rank {rank}", len(data))
    lists = memoryview(data[first + count * size :]).cast("I")
    tasks = []
    for i, (_, kind, peer, amount, tag, cpu, _, *_) in enumerate(rows):
        where = f"rank {rank}, operation {i}"
        if kind == _CALC:
            tasks.append(schedule.calc(rank, amount, cpu, where))
        elif kind in (_SEND, _RECEIVE):
            if kind == _SEND:
                tasks.append(schedule.send(rank, peer, amount, tag, where))
            else:
                any_peer, any_tag = (ANY if value == _ANY else value for value in (peer, tag))
                tasks.append(schedule.receive(rank, any_peer, amount, any_tag, where))
        else:
            raise schedule.error("must be send, receive or calc", f"{where}, type", kind)
    for i, row in enumerate(rows):
        ends, at, starts, start_at = row[7:]
        for number, place, add_edge in ((ends, at, schedule.requires), (starts, start_at, schedule.irequires)):
            for other in lists[place : place + number] if number else ():
                if other >= count:
                    raise schedule.error(f"there are {count} operations", f"rank {rank}, operation {i}", other)
                add_edge(tasks[other], tasks[i])


def _rows(data: memoryview, first: int, count: int, size: int) -> list[tuple[int, ...]] | None:
    """Return the operations, if all offsets are valid with this size of each."""
    rest = len(data) - first - count * size
    if rest < 0 or rest % 4:
        return None
    rows = [_OPERATION.unpack_from(data, first + i * size) for i in range(count)]
    waiting = sum(row[7] + row[9] for row in rows)
    inside = all(row[8] + row[7] <= rest // 4 for row in rows if row[7])
    inside = inside and all(row[10] + row[9] <= rest // 4 for row in rows if row[9])
    return rows if waiting * 4 == rest and inside else None
