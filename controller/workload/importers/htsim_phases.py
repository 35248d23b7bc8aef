"""Which connections of an htsim connection matrix run at once, and which belong together.

A connection matrix says when a connection starts (a time, or a trigger that others fire when they are done), not what
it is for. The rule by which it becomes a job:

* Time is counted in *rounds*: what starts by a time is round 0, and all of a round are done before the next begins.
  Triggers fire as htsim's do, so round r holds what waits for r connections one after the other. A round is a phase.
  Starts by different times are one round: nothing says that the first is over when the second begins.
* Within a phase, connections with the same start time are one collective (``start-0``), and so are those that one
  trigger starts together (``trigger-7``). What is started one by one (each link of a chain of single connections, as
  in htsim's serial all-to-all) has no such mark: all of these in a phase are one collective (``chain-3``).

Chains that run beside each other drift apart in htsim when one is faster; here they keep step.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from controller.workload.importers.fields import Place
from controller.workload.importers.htsim_connections import Connections

MAX_ROUNDS = 1_000_000
"""As many phases as a job may have."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """Of M connections.

    Attributes:
        collective: [M] index into the names.
        names: of the collectives, in order of their phases.
        phases: by collective.
    """

    collective: array[int]
    names: tuple[str, ...]
    phases: tuple[int, ...]


def group(matrix: Connections) -> tuple[Grouping, array[int]]:
    """The collectives of a matrix by the rule above, and the round [M] of each connection.

    Raises:
        InputError: a connection that never starts.
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
    """[M] the round in which each connection starts.

    Raises:
        InputError: a connection that never starts, because too little fires its trigger.
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
    """What a trigger starts as it is fired for the ``times``-th time."""
    row = matrix.triggers[trigger]
    if row.kind == "multishot":
        return waiting[times - 1 : times]
    return waiting if times == (row.count if row.kind == "barrier" else 1) else []


def _never(place: Place, matrix: Connections, trigger: int, times: int) -> Exception:
    row = matrix.triggers[trigger]
    wanted = f" and it waits for {row.count}" if row.kind == "barrier" else ""
    return place.error(f"this connection never starts: trigger {trigger} is fired {times} times{wanted}")


def _plain(start: float) -> str:
    """A start time without sign or exponent, to the millionth of a picosecond."""
    return f"{start:.6f}".rstrip("0").rstrip(".")
