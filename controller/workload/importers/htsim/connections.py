"""htsim's connection matrices (``.cm``) as columns.

The grammar is that of ``ConnectionMatrix::load`` in htsim's sim/datacenter/connection_matrix.cpp (Broadcom/csg-htsim):
a head of ``Nodes``, ``Connections``, ``Triggers`` and ``Failures`` with their numbers, then one line a connection,

    src->dst [id I] start PICOSECONDS|trigger T [size BYTES] [send_done_trigger T] [recv_done_trigger T] [prio P]

(in uet-htsim also ``msg [I]``), one a trigger, ``trigger id T oneshot|multishot|barrier [count N]``, and one a failure.
Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from controller.model.errors import InputError
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.base import Source
from controller.workload.importers.fields import MAX_RANKS, SourceLine
from controller.workload.importers.streams import lines

Kind = Literal["oneshot", "multishot", "barrier"]

KINDS: tuple[Kind, ...] = ("oneshot", "multishot", "barrier")

NO_SIZE = -1

MAX_ID = 2**32 - 1
"""Largest number of a connection or trigger: htsim's numbers have 32 bits."""

MAX_CONNECTIONS = 10_000_000

MAX_START = float(2**63)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger, which starts connections when others are done.

    ``oneshot`` starts all of its connections when it is first fired, ``barrier`` when it has been fired ``count``
    times, and ``multishot`` the next one of them each time (htsim's sim/trigger.cpp).
    """

    kind: Kind
    count: int
    line: int


@dataclass(eq=False)
class Connections:
    """A connection matrix.

    Attributes:
        nodes: node n is the n-th host of the topology, counted from 0, hosts of one leaf next to each other.
        src: [M] sending node.
        dst: [M] receiving node.
        size: [M] bytes, ``NO_SIZE`` where the file has none.
        start: [M] picoseconds, for connections without a trigger.
        trigger: [M] number of the trigger that starts it, 0: none.
        send_done: [M] number of the trigger that it fires when all is sent, 0: none.
        recv_done: [M] number of the trigger that it fires when all is received, 0: none.
        line: [M] line of the file.
        triggers: the triggers by number.
        comments: the comments that begin with ``# fairspine``, without these words.
        failures: number of lines that take links or switches down.
    """

    source: Source
    nodes: int = 0
    src: array[int] = field(default_factory=lambda: array("q"))
    dst: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))
    start: array[float] = field(default_factory=lambda: array("d"))
    trigger: array[int] = field(default_factory=lambda: array("q"))
    send_done: array[int] = field(default_factory=lambda: array("q"))
    recv_done: array[int] = field(default_factory=lambda: array("q"))
    line: array[int] = field(default_factory=lambda: array("q"))
    triggers: dict[int, Trigger] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    failures: int = 0

    def __len__(self) -> int:
        """Return the number M of connections."""
        return len(self.src)

    def place(self, connection: int) -> SourceLine:
        """Return the line of a connection."""
        return SourceLine(self.source, self.line[connection])


COMMENT = "# fairspine "

_HEAD = ("Nodes", "Connections", "Triggers", "Failures")


def read_connections(source: Source) -> Connections:
    """Parse a connection matrix from its text.

    Raises:
        InputError: a line does not match the grammar, a number is out of bounds, a node does not exist, or the head
            states other numbers than there are.
    """
    matrix = Connections(source)
    head: dict[str, tuple[SourceLine, int]] = {}
    for number, text in lines(source):
        words = text.split()
        if not words:
            continue
        place = SourceLine(source, number)
        if words[0].startswith("#"):
            if text.startswith(COMMENT):
                matrix.comments.append(text.removeprefix(COMMENT).strip())
        elif words[0] in _HEAD:
            _add_head(place, words, head)
            matrix.nodes = head["Nodes"][1] if "Nodes" in head else 0
        elif "->" in words[0]:
            _add_connection(matrix, place, words)
        elif words[0] == "trigger":
            _add_trigger(matrix, place, words)
        elif words[0] == "failure":
            matrix.failures += 1
        else:
            raise place.error("is not a line of a connection matrix", text)
    _check_head(matrix, head)
    _check_triggers(matrix)
    return matrix


def _add_head(place: SourceLine, words: list[str], head: dict[str, tuple[SourceLine, int]]) -> None:
    name = words[0]
    if name in head:
        raise place.error(f"{name} is already in line {head[name][0].line}")
    if len(words) != 2:
        raise place.error(f"{name} has one number", " ".join(words))
    least, most = (1, MAX_RANKS) if name == "Nodes" else (0, MAX_ID)
    head[name] = (place, place.whole(words[1], name, least, most))


def _add_connection(matrix: Connections, place: SourceLine, words: list[str]) -> None:
    if not matrix.nodes:
        raise place.error("a connection is before the number of nodes")
    if len(matrix) == MAX_CONNECTIONS:
        raise place.error(f"there are more than {MAX_CONNECTIONS} connections")
    src, _, dst = words[0].partition("->")
    ends = [place.whole(end, "the node", 0, matrix.nodes - 1) for end in (src, dst)]
    if ends[0] == ends[1]:
        raise place.error("a node cannot send to itself", words[0])
    values = _values(place, words[1:])
    if values.keys() >= {"start", "trigger"}:
        raise place.error("a connection must have a start or a trigger, not both")
    matrix.src.append(ends[0])
    matrix.dst.append(ends[1])
    matrix.size.append(place.rounded_up(values["size"], "size", MAX_BYTES) if "size" in values else NO_SIZE)
    matrix.start.append(place.decimal(values.get("start", "0"), "start", MAX_START))
    matrix.trigger.append(_number(place, values, "trigger", 1))
    matrix.send_done.append(_number(place, values, "send_done_trigger", 0))
    matrix.recv_done.append(_number(place, values, "recv_done_trigger", 0))
    _number(place, values, "id", 1)
    _number(place, values, "prio", 0)
    matrix.line.append(place.line)


def _message(rest: list[str]) -> None:
    """Drop a connection's number after ``msg``; uet-htsim's reader accepts the word with and without one."""
    if rest and rest[0].isdigit():
        del rest[0]


_KEYS = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio")


def _values(place: SourceLine, words: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    left = list(words)
    while left:
        key = left.pop(0)
        if key == "addon":
            continue
        if key == "msg":
            _message(left)
            continue
        if key not in _KEYS:
            raise place.error("is not an attribute of a connection", key)
        if key in values:
            raise place.error(f"{key} is given twice")
        if not left:
            raise place.error(f"{key} has no value")
        values[key] = left.pop(0)
    return values


def _number(place: SourceLine, values: dict[str, str], key: str, least: int) -> int:
    return place.whole(values[key], key, least, MAX_ID) if key in values else 0


def _add_trigger(matrix: Connections, place: SourceLine, words: list[str]) -> None:
    values: dict[str, str] = {}
    rest = iter(words[1:])
    for key in rest:
        name = "kind" if key in KINDS else key
        if name in values:
            raise place.error(f"the trigger's {name} is given twice", key)
        value = key if key in KINDS else next(rest, None)
        if name not in ("kind", "id", "count"):
            raise place.error("is not an attribute of a trigger", key)
        if value is None:
            raise place.error(f"{key} has no value")
        values[name] = value
    for name in ("id", "kind"):
        if name not in values:
            raise place.error(f"the trigger has no {name}")
    number = place.whole(values["id"], "id", 1, MAX_ID)
    if number in matrix.triggers:
        raise place.error(f"trigger {number} is already in line {matrix.triggers[number].line}")
    kind = cast(Kind, values["kind"])
    count = _number(place, values, "count", 0)
    if kind == "barrier" and not count:
        raise place.error("a barrier must have a count of at least 1")
    matrix.triggers[number] = Trigger(kind, count, place.line)


def _check_head(matrix: Connections, head: dict[str, tuple[SourceLine, int]]) -> None:
    if "Nodes" not in head:
        raise InputError("does not contain the number of nodes", source=matrix.source.name, field="Nodes")
    counts = {"Connections": len(matrix), "Triggers": len(matrix.triggers), "Failures": matrix.failures}
    for name, count in counts.items():
        if name in head and head[name][1] != count:
            place, promised = head[name]
            raise place.error(f"the header announces {promised}, but there are {count}", f"{name} {promised}")
        if name not in head and count and name == "Connections":
            raise InputError(
                f"does not contain the number of connections ({count})", source=matrix.source.name, field=name
            )


def _check_triggers(matrix: Connections) -> None:
    for column in (matrix.trigger, matrix.send_done, matrix.recv_done):
        for connection, number in enumerate(column):
            if number and number not in matrix.triggers:
                raise matrix.place(connection).error("no line defines this trigger", f"trigger {number}")
