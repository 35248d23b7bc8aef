"""The phases and collectives of connections in an htsim connection matrix.

A connection matrix has the start of a connection (a time, or a trigger that others fire when they are done), not its
purpose. The rule by which it becomes a job:

* Time is counted in *rounds*: what starts by a time is round 0, and all of a round are done before the next begins.
  Triggers fire as htsim's do, so round r holds connections that wait for r others in sequence. A round is a phase.
  Starts by different times are one round: the first may still run when the second begins.
* Within a phase, connections with the same start time are one collective (``start-0``), and so are those that one
  trigger starts together (``trigger-7``). Connections started singly (each link of a chain of single connections, as
  in htsim's serial all-to-all) has no such mark: all of these in a phase are one collective (``chain-3``).

Chains that run at the same time drift apart in htsim when one is faster; here they advance together.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from controller.workload.importers.fields import SourceLine
from controller.workload.importers.htsim.connections import Connections

MAX_ROUNDS = 1_000_000
"""Most rounds, which is the largest number of phases of a job."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """The collectives of M connections.

    Attributes:
        collective: [M] index into the names.
        names: names of the collectives, in order of their phases.
        phases: phase of each collective.
    """

    collective: array[int]
    names: tuple[str, ...]
    phases: tuple[int, ...]


def group(matrix: Connections) -> tuple[Grouping, array[int]]:
    """Group the connections of a matrix by the rule above; return also the round [M] of each connection.

    Raises:
        InputError: a connection never starts.
    """
    rounds = rounds_of(matrix)
    together: dict[int, int] = {}
    for number in matrix.trigger:
        together[number] = together.get(number, 0) + 1
    index: dict[tuple[int, str], int] = {}
    collective = array("q", bytes(8 * len(matrix)))
    for i, trigger in enumerate(matrix.trigger):
        several = matrix.triggers[trigger].kind != "multishot" and together[trigger] > 1 if trigger else False
        if not trigger:
            name = f"start-{_plain(matrix.start[i])}"
        elif several:
            name = f"trigger-{trigger}"
        else:
            name = f"chain-{rounds[i]}"
        collective[i] = index.setdefault((rounds[i], name), len(index))
    order = sorted(index, key=lambda key: (key[0], index[key]))
    position = {index[key]: k for k, key in enumerate(order)}
    for i, k in enumerate(collective):
        collective[i] = position[k]
    return Grouping(collective, tuple(name for _, name in order), tuple(phase for phase, _ in order)), rounds


def rounds_of(matrix: Connections) -> array[int]:
    """Return the round [M] in which each connection starts.

    Raises:
        InputError: a connection never starts, because its trigger is not fired often enough.
    """
    waiting: dict[int, list[int]] = {}
    rounds = array("q", [-1]) * len(matrix)
    now: list[int] = []
    for i, trigger in enumerate(matrix.trigger):
        if trigger:
            waiting.setdefault(trigger, []).append(i)
        else:
            now.append(i)
    fired: dict[int, int] = {}
    number = 0
    while now:
        after: list[int] = []
        for i in now:
            rounds[i] = number
            for trigger in (matrix.send_done[i], matrix.recv_done[i]):
                if trigger:
                    fired[trigger] = fired.get(trigger, 0) + 1
                    after += _started(matrix, trigger, fired[trigger], waiting.get(trigger, []))
        now = after
        number += 1
        if now and number > MAX_ROUNDS:
            raise matrix.place(now[0]).error(f"more than {MAX_ROUNDS} connections wait for each other")
    for i, reached in enumerate(rounds):
        if reached < 0:
            raise _never(matrix.place(i), matrix, matrix.trigger[i], fired.get(matrix.trigger[i], 0))
    return rounds


def _started(matrix: Connections, trigger: int, times: int, waiting: list[int]) -> list[int]:
    """Return the connections that a trigger starts when it is fired for the ``times``-th time."""
    row = matrix.triggers[trigger]
    if row.kind == "multishot":
        return waiting[times - 1 : times]
    return waiting if times == (row.count if row.kind == "barrier" else 1) else []


def _never(place: SourceLine, matrix: Connections, trigger: int, times: int) -> Exception:
    row = matrix.triggers[trigger]
    wanted = f" but it waits for {row.count}" if row.kind == "barrier" else ""
    return place.error(f"this connection never starts: trigger {trigger} is fired {times} times{wanted}")


def _plain(start: float) -> str:
    """Format a start time without sign or exponent, to the millionth of a picosecond."""
    return f"{start:.6f}".rstrip("0").rstrip(".")
