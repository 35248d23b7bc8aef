"""Laws of paces: which class each flow has, and the changes from the paces of one plan to those of another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.linux.pacing import MOST_CLASSES, PaceChanges, PaceState, pace_changes, paced

KEYS = [bytes([n]) * 20 for n in range(8)]
RATES = st.integers(8, 10**12)
plans = st.dictionaries(st.sampled_from(KEYS), RATES)
# What a kernel may hold after others have changed it: flows of one class, and flows whose class is gone.
held_states = st.builds(
    PaceState,
    st.dictionaries(st.sampled_from(KEYS), st.integers(1, 6)),
    st.dictionaries(st.integers(1, 6), RATES),
)


def applied(state: PaceState, step: PaceChanges) -> PaceState:
    """What the kernel holds after changes; it refuses to add a flow that is there, and to remove one that is not."""
    flows, classes = dict(state.flows), dict(state.classes)
    classes.update(step.set_classes)
    for key in step.del_flows:
        del flows[key]
    assert not flows.keys() & step.set_flows.keys()
    flows.update(step.set_flows)
    for number in step.lifted:
        del classes[number]
    return PaceState(flows, classes)


def rates(state: PaceState) -> dict[bytes, int]:
    return {key: state.classes[number] for key, number in state.flows.items()}


@given(held_states, st.lists(plans, min_size=1, max_size=4))
def test_after_any_plans_each_paced_flow_has_a_class_of_its_own_with_its_rate_and_there_are_no_others(
    held: PaceState, steps: list[dict[bytes, int]]
) -> None:
    for wanted in steps:
        new = paced(held, wanted)
        changes = pace_changes(held, new)
        held = applied(held, changes)
        assert held == new
        assert rates(held) == wanted
        assert sorted(held.flows.values()) == sorted(held.classes)
        assert not pace_changes(held, paced(held, wanted))


@given(plans, plans)
def test_a_flow_that_stays_keeps_its_class_and_no_new_flow_gets_one_in_which_packets_of_another_may_wait(
    old: dict[bytes, int], new: dict[bytes, int]
) -> None:
    before = paced(PaceState(), old)
    after = paced(before, new)
    for key, number in after.flows.items():
        assert number == before.flows[key] if key in old else number not in before.classes
    changes = pace_changes(before, after)
    assert set(changes.set_flows) == new.keys() - old.keys()
    # A changed rate changes its class only.
    assert set(changes.set_classes) == {after.flows[key] for key, rate in new.items() if old.get(key) != rate}


@given(held_states, plans)
def test_no_flow_is_at_any_moment_in_a_class_that_is_not_there_or_that_goes(
    held: PaceState, wanted: dict[bytes, int]
) -> None:
    new = paced(held, wanted)
    changes = pace_changes(held, new)
    there = held.classes.keys() | changes.set_classes.keys()
    for key in wanted:
        assert new.flows[key] in there
        assert new.flows[key] not in changes.lifted


def test_flows_for_which_there_is_no_class_are_not_paced() -> None:
    keys = [n.to_bytes(20, "big") for n in range(MOST_CLASSES + 2)]
    state = paced(PaceState(), dict.fromkeys(keys, 8))
    assert len(state.flows) == len(state.classes) == MOST_CLASSES
