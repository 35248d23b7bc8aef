"""The set of awaited switches while unknown switches connect and disconnect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.discovery.awaited_switches import GRACE, LONGEST, AwaitedSwitches

LEAF, SPINE = 1, 2
STRANGERS = st.lists(st.tuples(st.floats(0, 2 * LONGEST), st.integers(100, 200), st.booleans()), max_size=40)


@given(STRANGERS)
def test_switches_that_are_not_intended_prolong_no_waiting(events: list[tuple[float, int, bool]]) -> None:
    alone, crowded = AwaitedSwitches((LEAF, SPINE)), AwaitedSwitches((LEAF, SPINE))
    for awaited in (alone, crowded):
        awaited.entered(LEAF, 0.0)
        awaited.entered(SPINE, 0.0)
        awaited.left(SPINE, 1.0)
    for now, dpid, enters in sorted(events):
        if enters:
            crowded.entered(dpid, now)
        else:
            crowded.left(dpid, now)
        assert crowded.lost(now) == alone.lost(now)
        assert crowded.starting(now, lambda dpid: False) == alone.starting(now, lambda dpid: False)


@given(st.booleans())
def test_disconnected_switches_are_forgotten(intended: bool) -> None:
    awaited = AwaitedSwitches((LEAF,) if intended else None)
    for n in range(1000):
        awaited.entered(n, float(n))
        awaited.left(n, float(n))
        assert len(awaited.lost(float(n))) <= LONGEST
    assert len(awaited._gone) <= LONGEST
    assert awaited.lost(1000 + GRACE + LONGEST) == frozenset()
