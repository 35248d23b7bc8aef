"""The routes and maps that the kernel of a host should hold, and the changes from one such state to another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Generic, NamedTuple, TypeVar

from agent.linux.carrier_tags import CarrierTags
from agent.linux.numbering import Numbering
from agent.plans.flow_keys import destination
from agent.plans.host_plan import SLOTS, HostPlan, OwnSegment, PathChoice, divided

MARK_BASE, SPREAD_BASE = 0xFA000000, 0xFB000000
"""Marks of packets of planned flows are this, their class of priority (2 bits) and a number of 22 bits: of flows with
one path, and of those whose packets are spread."""
CLASS_SHIFT, MOST_CHOICES = 22, 0x003FFFFF
MARK_MASK, CLASS_MASK = 0xFE000000, 0x00C00000
"""A mark is ours if, under ``MARK_MASK``, it is ``MARK_BASE``; ``CLASS_MASK`` has the class of priority."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class PathSlot(NamedTuple):
    """One of ``SLOTS`` places of a mark: each packet with the mark takes one of them at random."""

    mark: int
    number: int


Live = Callable[[IPv6Address], bool]


@dataclass(frozen=True)
class KernelState:
    """Packets of a flow get a mark, and packets with a mark a carrier; all others to a destination take its route.

    So a path in use by any number of flows is moved by one change.

    Attributes:
        segments: what is taken in.
        routes: carrier by packed address of the destination.
        flows: mark by key of the flow.
        carriers: carrier by mark.
        slots: carrier by slot, of marks whose packets are spread over several paths.
        pairs: mark of all packets to a destination that belong to none of ``flows``, by its packed address, where they
            are spread or have a class of priority.
    """

    segments: frozenset[OwnSegment] = frozenset()
    routes: Mapping[bytes, IPv6Address] = field(default_factory=dict)
    flows: Mapping[bytes, int] = field(default_factory=dict)
    carriers: Mapping[int, IPv6Address] = field(default_factory=dict)
    slots: Mapping[PathSlot, IPv6Address] = field(default_factory=dict)
    pairs: Mapping[bytes, int] = field(default_factory=dict)


@dataclass(frozen=True)
class MapChanges(Generic[K, V]):
    """The changes of a map: keys that go, keys that are new or get another value, and those of them that were there."""

    removed: tuple[K, ...]
    set: Mapping[K, V]
    replaced: frozenset[K]

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.removed or self.set)


def map_changes(old: Mapping[K, V], new: Mapping[K, V]) -> MapChanges[K, V]:
    """Return the changes from one map to another."""
    if old is new:
        return MapChanges((), {}, frozenset())
    come = {key: value for key, value in new.items() if old.get(key) != value}
    return MapChanges(tuple(key for key in old if key not in new), come, frozenset(come.keys() & old.keys()))


@dataclass(frozen=True)
class KernelChanges:
    """The changes from one state to another: what goes, and what is new or has another value."""

    del_segments: frozenset[OwnSegment]
    add_segments: frozenset[OwnSegment]
    del_routes: tuple[bytes, ...]
    set_routes: Mapping[bytes, IPv6Address]
    del_flows: tuple[bytes, ...]
    set_flows: Mapping[bytes, int]
    del_carriers: tuple[int, ...]
    set_carriers: Mapping[int, IPv6Address]
    replaced_flows: frozenset[bytes] = frozenset()
    replaced_carriers: frozenset[int] = frozenset()
    slots: MapChanges[PathSlot, IPv6Address] = field(default_factory=lambda: map_changes({}, {}))
    pairs: MapChanges[bytes, int] = field(default_factory=lambda: map_changes({}, {}))

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return any(
            (
                self.del_segments,
                self.add_segments,
                self.del_routes,
                self.set_routes,
                self.del_flows,
                self.set_flows,
                self.del_carriers,
                self.set_carriers,
                self.slots,
                self.pairs,
            )
        )


def changes(old: KernelState, new: KernelState) -> KernelChanges:
    """Return the changes that make one state of another."""
    # After a move, both states have the same flows; comparing many takes longer than the move.
    same = old.flows is new.flows
    set_flows = {} if same else {key: mark for key, mark in new.flows.items() if old.flows.get(key) != mark}
    set_carriers = {mark: carrier for mark, carrier in new.carriers.items() if old.carriers.get(mark) != carrier}
    return KernelChanges(
        old.segments - new.segments,
        new.segments - old.segments,
        tuple(dst for dst in old.routes if dst not in new.routes),
        {dst: carrier for dst, carrier in new.routes.items() if old.routes.get(dst) != carrier},
        () if same else tuple(key for key in old.flows if key not in new.flows),
        set_flows,
        tuple(mark for mark in old.carriers if mark not in new.carriers),
        set_carriers,
        frozenset(set_flows.keys() & old.flows.keys()),
        frozenset(set_carriers.keys() & old.carriers.keys()),
        map_changes(old.slots, new.slots),
        map_changes(old.pairs, new.pairs),
    )


class StateMaker:
    """Makes the state of the kernel from a plan and the paths that are dead; it remembers the numbers that it gives."""

    def __init__(self, *, by_flow: bool = True, held: KernelState | None = None) -> None:
        """Begin.

        Args:
            by_flow: whether the kernel tells flows apart; else all packets to a destination take the path of the
                first flow to it.
            held: the state that the kernel has already, whose marks get no other meaning.
        """
        marks = {*held.carriers, *(slot.mark for slot in held.slots)} if held else set()
        self._by_flow = by_flow
        self._choices: Numbering[PathChoice] = Numbering(MOST_CHOICES, taken=(mark & MOST_CHOICES for mark in marks))
        self._tags = CarrierTags()

    def state(self, plan: HostPlan, live: Live) -> KernelState:
        """Return the state for a plan: each flow takes the first of its carriers that is live, or those of its set.

        Marks and tags of paths that are not in the plan any more are given up.
        """
        marked = {dst: choice for dst, choice in plan.destinations.items() if choice.spread or choice.priority}
        choices = dict.fromkeys((*plan.flows.values(), *marked.values()))
        self._choices.keep(choices)
        self._tags.keep({carrier for choice in plan.choices for carrier in choice.carriers} | {*plan.probes})
        if not self._by_flow:
            return KernelState(frozenset(plan.decapsulate), self._routes(plan, live))
        marks = {
            choice: (SPREAD_BASE if choice.spread else MARK_BASE) + (choice.priority << CLASS_SHIFT) + number
            for choice in choices
            if (number := self._choices.number(choice))
        }
        return KernelState(
            frozenset(plan.decapsulate),
            self._routes(plan, live),
            {key: marks[choice] for key, choice in plan.flows.items() if choice in marks},
            {mark: self._tags.tagged(in_use(choice, live)) for choice, mark in marks.items() if not choice.spread},
            {key: value for choice, mark in marks.items() for key, value in self._slots(mark, choice, live)},
            {dst: marks[choice] for dst, choice in marked.items() if choice in marks},
        )

    def moved(self, state: KernelState, plan: HostPlan, live: Live) -> KernelState:
        """Return the state of the same plan after some paths have died or live again."""
        if not self._by_flow:
            return KernelState(state.segments, self._routes(plan, live))
        carriers = {}
        for mark in state.carriers:
            choice = self._choices.value(mark & MOST_CHOICES)
            if choice is not None:
                carriers[mark] = self._tags.tagged(in_use(choice, live))
        slots: dict[PathSlot, IPv6Address] = {}
        for mark in {slot.mark for slot in state.slots}:
            choice = self._choices.value(mark & MOST_CHOICES)
            if choice is not None:
                slots.update(self._slots(mark, choice, live))
        several = any(len(choice.carriers) > 1 for choice in plan.destinations.values())
        routes = self._routes(plan, live) if several else state.routes
        return KernelState(state.segments, routes, state.flows, carriers, slots, state.pairs)

    def carrier_of(self, quoted: IPv6Address) -> IPv6Address | None:
        """Return the carrier of a packet whose destination address a router has quoted; ``None``: none of ours."""
        return self._tags.carrier(quoted)

    def tagged(self, address: IPv6Address) -> IPv6Address:
        """Return the address of a probe with a tag by which ``carrier_of`` knows it again."""
        return self._tags.tagged(address)

    def _slots(self, mark: int, choice: PathChoice, live: Live) -> Iterator[tuple[PathSlot, IPv6Address]]:
        """Yield the carrier of each slot of a set of paths; of others nothing."""
        if choice.spread:
            tagged = {carrier: self._tags.tagged(carrier) for carrier in choice.carriers}
            for number, carrier in enumerate(slot_carriers(choice, live)):
                yield PathSlot(mark, number), tagged[carrier]

    def _routes(self, plan: HostPlan, live: Live) -> dict[bytes, IPv6Address]:
        """Return the routes. A packet gets a carrier by a route first, so destinations of flows have one, too."""
        first: dict[bytes, IPv6Address] = {}
        for key, choice in plan.flows.items():
            if (dst := destination(key)) not in first:
                first[dst] = choice.carriers[0] if self._by_flow else in_use(choice, live)
        usual = {dst: in_use(choice, live) for dst, choice in plan.destinations.items()}
        carriers = {**first, **usual} if self._by_flow else {**usual, **first}
        return {dst: self._tags.tagged(carrier) for dst, carrier in carriers.items()}


def in_use(choice: PathChoice, live: Live) -> IPv6Address:
    """Return the first carrier that is live, or the planned one if none is."""
    return next((carrier for carrier in choice.carriers if live(carrier)), choice.carriers[0])


def slot_carriers(choice: PathChoice, live: Live) -> list[IPv6Address]:
    """Return the carrier of each of ``SLOTS`` slots of a set of paths.

    The slots of dead paths go to the live ones by their weights, and no other slot changes; if all are dead, the first
    backup that is live has all.
    """
    alive = [path for path in choice.spread if live(path.carrier)]
    if not alive:
        return [in_use(choice, live)] * SLOTS
    lost = SLOTS - sum(path.slots for path in alive)
    more = (
        carrier.carrier
        for carrier, slots in zip(alive, divided(lost, [path.slots for path in alive]), strict=True)
        for _ in range(slots)
    )
    usual = (path.carrier for path in choice.spread for _ in range(path.slots))
    return [carrier if live(carrier) else next(more) for carrier in usual]
