"""The routes and maps that the kernel of a host should hold, and the changes from one such state to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
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
        # The choices with marks, and how many flows and destinations have each.
        self._uses = Counter[PathChoice]()
        self._unmarked = set[PathChoice]()
        self._has_marks = False
        self._uses_of_carriers = Counter[IPv6Address]()

    def state(self, plan: HostPlan, live: Live) -> KernelState:
        """Return the state for a plan: each flow takes the first of its carriers that is live, or those of its set.

        Marks and tags of paths that are not in the plan any more are given up.
        """
        marked = {dst: choice for dst, choice in plan.destinations.items() if choice.spread or choice.priority}
        choices = self._uses = Counter([*plan.flows.values(), *marked.values()])
        self._unmarked = {choice for dst, choice in plan.destinations.items() if dst not in marked}
        self._uses_of_carriers = Counter(
            carrier for choice in (*choices, *self._unmarked) for carrier in choice.carriers
        )
        self._uses_of_carriers.update(plan.probes)
        self._choices.keep(choices)
        self._tags.keep({*self._uses_of_carriers})
        if not self._by_flow:
            self._has_marks = False
            return KernelState(frozenset(plan.decapsulate), self._routes(plan, live))
        marks = {choice: mark for choice in choices if (mark := self._mark(choice)) is not None}
        self._has_marks = len(marks) == len(choices)
        return KernelState(
            frozenset(plan.decapsulate),
            self._routes(plan, live),
            {key: marks[choice] for key, choice in plan.flows.items() if choice in marks},
            {mark: self._tags.tagged(in_use(choice, live)) for choice, mark in marks.items() if not choice.spread},
            {key: value for choice, mark in marks.items() for key, value in self._slots(mark, choice, live)},
            {dst: marks[choice] for dst, choice in marked.items() if choice in marks},
        )

    def step(
        self, state: KernelState, before: HostPlan, plan: HostPlan, live: Live
    ) -> tuple[KernelState, KernelChanges] | None:
        """Return the state for a plan whose changes are known, and how it differs; as ``state``, with less work.

        Args:
            state: for the plan before, as the last call of this class has returned it. It is used up: copying the
                marks of many flows takes longer than all the rest.
            before: that plan.
            plan: the new one.
            live: whether the path of a carrier is live.

        Returns:
            ``None`` if more has changed than flows: ``state`` makes all of it.
        """
        if not self._has_marks or not _only_flows_change(before, plan):
            return None
        assert plan.changes is not None
        # A key that is twice among the changes is counted once.
        changed = {key: (before.flows.get(key), plan.flows.get(key)) for key in plan.changes.keys}
        uses = Counter[PathChoice]()
        uses.update(new for _, new in changed.values() if new is not None)
        uses.subtract(old for old, _ in changed.values() if old is not None)
        come = [choice for choice, more in uses.items() if more > 0 and choice not in self._uses]
        gone = [choice for choice, more in uses.items() if more < 0 and self._uses[choice] + more == 0]
        marks = {new: self._mark(new) for _, new in changed.values() if new is not None}
        if None in marks.values():
            return None
        self._count(uses, come, gone)
        set_flows, del_flows = dict[bytes, int](), []
        for key, (_, choice) in changed.items():
            mark = None if choice is None else marks[choice]
            if mark is None:
                if key in state.flows:
                    del_flows.append(key)
            elif state.flows.get(key) != mark:
                set_flows[key] = mark
        replaced = frozenset(key for key in set_flows if key in state.flows)
        flows = state.flows if isinstance(state.flows, dict) else dict(state.flows)
        flows.update(set_flows)
        for key in del_flows:
            del flows[key]
        new_marks = {mark: choice for choice in come if (mark := marks[choice]) is not None}
        set_carriers = {
            mark: self._tags.tagged(in_use(each, live)) for mark, each in new_marks.items() if not each.spread
        }
        set_slots = dict(pair for mark, each in new_marks.items() for pair in self._slots(mark, each, live))
        old_marks = {mark for choice in gone if (mark := self._mark(choice)) is not None}
        for choice in gone:
            self._choices.drop(choice)
        carriers, slots = state.carriers, state.slots
        if come or gone:
            carriers = {mark: each for mark, each in carriers.items() if mark not in old_marks} | set_carriers
            slots = {slot: each for slot, each in slots.items() if slot.mark not in old_marks} | set_slots
        return (
            KernelState(state.segments, state.routes, flows, carriers, slots, state.pairs),
            KernelChanges(
                frozenset(),
                frozenset(),
                (),
                {},
                tuple(del_flows),
                set_flows,
                tuple(mark for mark in old_marks if mark in state.carriers),
                set_carriers,
                replaced,
                slots=MapChanges(
                    tuple(slot for slot in state.slots if slot.mark in old_marks) if old_marks else (),
                    set_slots,
                    frozenset(),
                ),
            ),
        )

    @property
    def choices(self) -> Collection[PathChoice]:
        """All choices of paths of the last plan, each once."""
        return self._uses.keys() | self._unmarked

    @property
    def carriers(self) -> Collection[IPv6Address]:
        """All carriers of the last plan, and its probes of single cables."""
        return self._uses_of_carriers.keys()

    def _count(self, uses: Counter[PathChoice], come: Iterable[PathChoice], gone: Iterable[PathChoice]) -> None:
        """Count how often choices and carriers are used; give up the tags of carriers that are not any more."""
        self._uses.update(uses)
        for choice in come:
            self._uses_of_carriers.update(choice.carriers)
        for choice in gone:
            del self._uses[choice]
            self._uses_of_carriers.subtract(choice.carriers)
            for carrier in choice.carriers:
                if not self._uses_of_carriers[carrier]:
                    del self._uses_of_carriers[carrier]
                    self._tags.drop(carrier)

    def _mark(self, choice: PathChoice) -> int | None:
        """Return the mark of a choice; ``None``: there are no more."""
        number = self._choices.number(choice)
        if number is None:
            return None
        return (SPREAD_BASE if choice.spread else MARK_BASE) + (choice.priority << CLASS_SHIFT) + number

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
        for key, choice in _first_flows(plan).items():
            first[destination(key)] = choice.carriers[0] if self._by_flow else in_use(choice, live)
        usual = {dst: in_use(choice, live) for dst, choice in plan.destinations.items()}
        carriers = {**first, **usual} if self._by_flow else {**usual, **first}
        return {dst: self._tags.tagged(carrier) for dst, carrier in carriers.items()}


def _only_flows_change(before: HostPlan, plan: HostPlan) -> bool:
    """Return whether a plan differs from the one before in flows alone, of which none is the route of a destination."""
    changes = plan.changes
    return (
        changes is not None
        and changes.earlier == before.id
        and plan.destinations is before.destinations
        and plan.decapsulate == before.decapsulate
        and plan.probes == before.probes
        and all(destination(key) in plan.destinations for key in changes.keys)
    )


def _first_flows(plan: HostPlan) -> dict[bytes, PathChoice]:
    """Return a flow to each destination: the first one by its key, since a plan has its flows in any order."""
    first: dict[bytes, bytes] = {}
    for key in plan.flows:
        dst = destination(key)
        if dst not in first or key < first[dst]:
            first[dst] = key
    return {key: plan.flows[key] for key in first.values()}


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
