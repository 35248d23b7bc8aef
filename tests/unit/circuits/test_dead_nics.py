"""When circuits are planned without a NIC, and when with it again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.control.dead_nics import DeadNics
from tests.unit.laws import examples

A, B = (0, 0), (1, 1)


@settings(max_examples=examples(60, 400))
@given(
    hold=st.integers(0, 5),
    steps=st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), min_size=1, max_size=20),
)
def test_a_nic_changes_after_it_was_otherwise_for_the_whole_time(
    hold: int, steps: list[tuple[int, bool, bool]]
) -> None:
    nics, clock = DeadNics(hold), 0
    since = dict.fromkeys((A, B), 0)
    before: dict[tuple[int, int], bool] = {}
    wanted: set[tuple[int, int]] = set()
    for elapsed, *states in steps:
        clock += elapsed
        for nic, down in zip((A, B), states, strict=True):
            if nic not in before and down:
                wanted.add(nic)
            if before.get(nic) != down:
                since[nic], before[nic] = clock, down
            nics.note(nic, down=down, clock=clock)
            if clock - since[nic] >= hold:
                (wanted.add if down else wanted.discard)(nic)
        left = nics.seconds_left(clock)
        nics.settle(clock)
        assert nics.now == wanted
        waiting = [since[nic] + hold - clock for nic in before if before[nic] != (nic in wanted)]
        assert nics.seconds_left(clock) == min(waiting, default=None)
        assert left is None or left >= 0
