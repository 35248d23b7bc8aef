"""The paces of flows as the kernel of a host should keep them, and the changes from one such state to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_CLASSES = 0xFFFF
"""Numbers of classes of a queueing discipline have 16 bits, and 0 is the discipline."""


@dataclass(frozen=True)
class PaceState:
    """Each paced flow has a class of its own, which sends at its rate.

    Attributes:
        flows: number of the class by key of the flow.
        classes: bit/s on the link by number of the class.
    """

    flows: Mapping[bytes, int] = field(default_factory=dict)
    classes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PaceChanges:
    """The changes from one state to another, in the order in which they are made.

    Attributes:
        set_classes: new classes, and those with another rate.
        lifted: classes that go, and send what waits in them without a limit first.
        del_flows: flows that are paced no longer, or in another class.
        set_flows: flows that are paced from now on, or in another class.
    """

    set_classes: Mapping[int, int]
    lifted: tuple[int, ...]
    del_flows: tuple[bytes, ...]
    set_flows: Mapping[bytes, int]

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return any((self.set_classes, self.lifted, self.del_flows, self.set_flows))


def paced(held: PaceState, wanted: Mapping[bytes, int]) -> PaceState:
    """Return the state that paces the flows of a plan.

    A flow that has a class keeps it. Classes of others are not given to new flows: packets of the flow before may wait
    there. Flows for which there is no class left are not paced.

    Args:
        held: what the kernel has.
        wanted: bit/s by key of the flow.
    """
    flows: dict[bytes, int] = {}
    used: set[int] = set()
    for key, number in held.flows.items():
        if key in wanted and number not in used and number in held.classes:
            flows[key] = number
            used.add(number)
    taken = {*held.classes, *held.flows.values()}
    free = (number for number in range(1, MOST_CLASSES + 1) if number not in taken)
    for key in wanted:
        if key not in flows and (unused := next(free, None)) is not None:
            flows[key] = unused
    return PaceState(flows, {number: wanted[key] for key, number in flows.items()})


def pace_changes(old: PaceState, new: PaceState) -> PaceChanges:
    """Return the changes that make one state of another."""
    set_flows = {key: number for key, number in new.flows.items() if old.flows.get(key) != number}
    return PaceChanges(
        {number: rate for number, rate in new.classes.items() if old.classes.get(number) != rate},
        tuple(number for number in old.classes if number not in new.classes),
        tuple(key for key in old.flows if key not in new.flows or key in set_flows),
        set_flows,
    )
