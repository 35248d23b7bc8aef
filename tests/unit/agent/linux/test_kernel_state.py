"""Laws of the changes from one plan to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from agent.linux.carrier_tags import MOST_TAGS, CarrierTags
from agent.linux.kernel_state import (
    CLASS_MASK,
    CLASS_SHIFT,
    MARK_BASE,
    MARK_MASK,
    K,
    KernelChanges,
    KernelState,
    Live,
    MapChanges,
    PathSlot,
    StateMaker,
    V,
    changes,
    in_use,
)
from agent.plans.flow_keys import described, destination, flow_key
from agent.plans.host_plan import CODE_POINTS, SLOTS, FlowChanges, HostPlan, PathChoice, SpreadPath, divided
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT

CARRIERS = [IPv6Address(f"fcbb:bb00:c00{spine}:{leaf}:e001::") for spine in range(1, 4) for leaf in range(1, 4)]
KEYS = [
    flow_key(IPv4Address("10.0.1.1"), IPv4Address(f"10.0.2.{n}"), protocol, port, ROCE_PORT)
    for n in (1, 2)
    for protocol in ("tcp", "udp")
    for port in (49152, MAX_PORT)
] + [flow_key(IPv6Address("fd00::1"), IPv6Address("fd00::2"), "udp", 7, 9)]

classes = st.integers(0, len(CODE_POINTS) - 1)
several = st.lists(st.sampled_from(CARRIERS), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def sets_of_paths(draw: st.DrawFn) -> PathChoice:
    """Packets are spread over the first of some carriers; the others are backups."""
    carriers = draw(several)
    weights = draw(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=len(carriers)))
    slots = divided(SLOTS, weights)
    spread = tuple(SpreadPath(*path, None) for path in zip(carriers, slots, strict=False) if path[1])
    every = tuple(dict.fromkeys([*(path.carrier for path in spread), *carriers]))
    return PathChoice(every, None, spread, draw(classes))


choices = st.one_of(st.builds(PathChoice, several, st.none(), st.just(()), classes), sets_of_paths())
plans = st.builds(
    HostPlan,
    st.integers(0, 9),
    st.just("h1"),
    st.just("planned"),
    st.just(IPv6Address("fd00::1")),
    st.just(()),
    st.dictionaries(st.sampled_from([key[4:8] for key in KEYS[:-1]]), choices),
    st.dictionaries(st.sampled_from(KEYS), choices),
)
dead_paths = st.sets(st.sampled_from(CARRIERS))


def applied(state: KernelState, step: KernelChanges) -> KernelState:
    """What the kernel holds after changes; it refuses to add what is there, and to remove what is not."""
    flows, carriers, routes = dict(state.flows), dict(state.carriers), dict(state.routes)
    slots, pairs = changed(state.slots, step.slots), changed(state.pairs, step.pairs)
    for key in (*step.del_flows, *step.replaced_flows):
        del flows[key]
    assert not flows.keys() & step.set_flows.keys()
    for mark in (*step.del_carriers, *step.replaced_carriers):
        del carriers[mark]
    assert not carriers.keys() & step.set_carriers.keys()
    for dst in step.del_routes:
        del routes[dst]
    segments = (state.segments - step.del_segments) | step.add_segments
    routes.update(step.set_routes)
    flows.update(step.set_flows)
    carriers.update(step.set_carriers)
    return KernelState(segments, routes, flows, carriers, slots, pairs)


def changed(held: Mapping[K, V], step: MapChanges[K, V]) -> dict[K, V]:
    """A map after changes; what is there is not added, and what is not there is not removed."""
    after = dict(held)
    for key in (*step.removed, *step.replaced):
        del after[key]
    assert not after.keys() & step.set.keys()
    return {**after, **step.set}


def living(dead: set[IPv6Address]) -> Live:
    """Which paths are live."""
    return lambda carrier: carrier not in dead


def carriers_of(state: KernelState, mark: int | None, dst: bytes) -> list[IPv6Address]:
    """The carriers of packets with a mark, without their tags: one, or those of all slots."""
    slots = [state.slots[PathSlot(mark, number)] for number in range(SLOTS)] if mark in marks_with_slots(state) else []
    usual = state.routes[dst] if mark is None else state.carriers.get(mark)
    return [untagged(carrier) for carrier in slots or ([] if usual is None else [usual])]


def marks_with_slots(state: KernelState) -> set[int]:
    return {slot.mark for slot in state.slots}


def expected(choice: PathChoice, dead: set[IPv6Address]) -> Counter[IPv6Address]:
    """How many slots each carrier has at least; of one path, or where none of a set lives, all packets take it."""
    alive = {path.carrier: path.slots for path in choice.spread if path.carrier not in dead}
    return Counter(alive or {in_use(choice, living(dead)): SLOTS if choice.spread else 1})


def follows(state: KernelState, mark: int | None, dst: bytes, choice: PathChoice, dead: set[IPv6Address]) -> bool:
    """Whether packets take the paths that they should: slots of dead paths go to live ones of the set alone."""
    taken, least = Counter(carriers_of(state, mark, dst)), expected(choice, dead)
    return taken >= least and taken.keys() == least.keys() and taken.total() == (SLOTS if choice.spread else 1)


def class_of(mark: int) -> int:
    """The class of priority that the rules of nftables, and the eBPF program, read in a mark."""
    assert mark & MARK_MASK == MARK_BASE
    return (mark & CLASS_MASK) >> CLASS_SHIFT


def untagged(carrier: IPv6Address) -> IPv6Address:
    return IPv6Address(int(carrier) & ~MOST_TAGS)


@given(st.lists(st.tuples(plans, dead_paths), min_size=1, max_size=5))
def test_after_any_plans_and_deaths_each_flow_takes_its_first_live_carrier(
    steps: list[tuple[HostPlan, set[IPv6Address]]],
) -> None:
    maker, held = StateMaker(), KernelState()
    for plan, dead in steps:
        for gone in (set(), dead):
            wanted = maker.state(plan, living(gone))
            held = applied(held, changes(held, wanted))
            assert held == wanted
            assert not changes(held, wanted)
        assert held.flows.keys() == plan.flows.keys()
        for key, choice in plan.flows.items():
            assert follows(held, held.flows[key], destination(key), choice, dead)
            assert destination(key) in held.routes
            assert class_of(held.flows[key]) == choice.priority
        marked = {dst for dst, choice in plan.destinations.items() if choice.spread or choice.priority}
        assert held.pairs.keys() == marked
        assert all(class_of(held.pairs[dst]) == plan.destinations[dst].priority for dst in marked)
        for dst, choice in plan.destinations.items():
            assert untagged(held.routes[dst]) == in_use(choice, living(dead))
            assert follows(held, held.pairs.get(dst), dst, choice, dead)


@st.composite
def changed_plans(draw: st.DrawFn, plan: HostPlan, epoch: int) -> HostPlan:
    """A plan of whose flows is known which are others; now and then of more than these, or of a plan not followed."""
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True))
    choice = st.one_of(choices, st.sampled_from([*plan.flows.values()])) if plan.flows else choices
    flows = {**plan.flows, **{key: draw(choice) for key in keys}}
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True)):
        flows.pop(key, None)
    keys += [key for key in plan.flows if key not in flows and key not in keys]
    destinations = draw(st.sampled_from([plan.destinations] * 3 + [draw(plans).destinations]))
    changes = FlowChanges((draw(st.sampled_from([plan.epoch] * 5 + [-1])), ""), tuple(keys))
    return replace(plan, epoch=epoch, flows=flows, destinations=destinations, changes=changes)


@given(plans, st.data())
def test_by_changes_of_plans_the_kernel_holds_what_it_would_by_whole_ones(plan: HostPlan, data: st.DataObject) -> None:
    maker, followed = StateMaker(), False
    plan = replace(
        plan, destinations={**{destination(key): choice for key, choice in plan.flows.items()}, **plan.destinations}
    )
    held = maker.state(plan, living(set()))
    dead = set[IPv6Address]()
    for epoch in range(10, 10 + data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            dead = data.draw(dead_paths)
            moved = maker.moved(held, plan, living(dead))
            held = applied(held, changes(held, moved))
        before, plan = plan, data.draw(changed_plans(plan, epoch))
        step = maker.step(replace(held, flows=dict(held.flows)), before, plan, living(dead))
        if step is None:
            wanted = maker.state(plan, living(dead))
            held = applied(held, changes(held, wanted))
        else:
            wanted, difference = step
            assert not changes(applied(held, difference), wanted)
            assert bool(difference) == bool(changes(held, wanted))
            held, followed = wanted, True
        whole = StateMaker().state(plan, living(dead))
        assert {*maker.choices} == {*plan.choices}
        assert {*maker.carriers} == {carrier for choice in plan.choices for carrier in choice.carriers}
        assert (held.segments, held.routes.keys()) == (whole.segments, whole.routes.keys())
        assert (held.flows.keys(), held.pairs.keys()) == (whole.flows.keys(), whole.pairs.keys())
        assert {*held.carriers} == {*held.flows.values(), *held.pairs.values()} - marks_with_slots(held)
        for key in plan.flows:
            one, other = (each.flows[key] for each in (held, whole))
            assert carriers_of(held, one, destination(key)) == carriers_of(whole, other, destination(key))
            assert class_of(one) == class_of(other)
        for tagged in (*held.carriers.values(), *held.routes.values()):
            assert maker.carrier_of(tagged) == untagged(tagged)
    event("by changes" if followed else "by whole plans")


@given(plans, dead_paths)
def test_a_death_changes_carriers_and_routes_only_and_each_at_most_once(plan: HostPlan, dead: set[IPv6Address]) -> None:
    maker = StateMaker()
    before = maker.state(plan, living(set()))
    after = maker.moved(before, plan, living(dead))
    step = changes(before, after)
    nothing: dict[str, Any] = {"carriers": {}, "routes": {}, "slots": {}}
    assert replace(after, **nothing) == replace(before, **nothing)
    assert len(step.set_carriers) <= len(plan.choices)
    # Slots of live paths stay.
    assert all(untagged(before.slots[slot]) in dead for slot in step.slots.set)
    assert step.set_routes.keys() <= plan.destinations.keys()
    for dst, choice in plan.destinations.items():
        assert untagged(after.routes[dst]) == in_use(choice, living(dead))
    for key, choice in plan.flows.items():
        assert follows(after, after.flows[key], destination(key), choice, dead)


@given(plans, plans)
def test_while_flows_change_in_parts_no_mark_has_another_meaning(old: HostPlan, new: HostPlan) -> None:
    maker = StateMaker()
    first, second = maker.state(old, living(set())), maker.state(new, living(set()))
    both = replace(second, carriers={**first.carriers, **second.carriers}, slots={**first.slots, **second.slots})
    for key, choice in old.flows.items():
        assert follows(both, first.flows[key], destination(key), choice, set())
    # The next agent adopts, and its marks mean nothing else either.
    third = StateMaker(held=second).state(old, living(set()))
    assert not third.carriers.keys() & second.carriers.keys()
    assert not third.slots.keys() & second.slots.keys()


@given(plans, dead_paths)
def test_without_maps_a_destination_takes_the_path_of_its_first_flow(plan: HostPlan, dead: set[IPv6Address]) -> None:
    state = StateMaker(by_flow=False).state(plan, living(dead))
    assert not state.flows
    assert not state.carriers
    first: dict[bytes, PathChoice] = {}
    for key, choice in sorted(plan.flows.items()):
        first.setdefault(destination(key), choice)
    for key in plan.flows:
        assert untagged(state.routes[destination(key)]) == in_use(first[destination(key)], living(dead))


@given(st.lists(st.sampled_from(CARRIERS), min_size=1, unique=True), st.integers(0, 3), st.data())
def test_a_quoted_address_names_its_carrier_whatever_ids_are_gone(
    carriers: list[IPv6Address], removed: int, data: st.DataObject
) -> None:
    tags = CarrierTags()
    tagged = {carrier: tags.tagged(carrier) for carrier in carriers}
    carrier = data.draw(st.sampled_from(carriers))
    block, rest_bits = int(tagged[carrier]) >> 96, 96
    rest = int(tagged[carrier]) << 16 * removed & (1 << rest_bits) - 1
    assert tags.carrier(IPv6Address(block << 96 | rest)) == carrier
    # Another address of the block names none.
    assert tags.carrier(IPv6Address(block << 96 | rest ^ 1 << 90)) is None


def test_the_parts_of_a_key_are_those_it_was_made_of() -> None:
    key = flow_key(IPv4Address("10.0.1.1"), IPv4Address("10.0.2.1"), "udp", 4096, ROCE_PORT)
    # The order and padding of nft --debug=netlink: 0101000a 0102000a 00000011 00000110 0000b712.
    assert key.hex() == "0a0001010a000201110000001000000012b70000"
    assert described(key) == {
        "src": "10.0.1.1",
        "dst": "10.0.2.1",
        "protocol": "udp",
        "src_port": 4096,
        "dst_port": ROCE_PORT,
    }
