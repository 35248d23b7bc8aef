"""The newest changes are there, in order, and no more than were asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.store.recent_changes import CHANGE_BYTES, RecentChanges
from controller.store.store_mapping import RowChanges

SIZES = st.lists(st.integers(0, 3 * CHANGE_BYTES), max_size=12)


def edit(size: int) -> RowChanges:
    return RowChanges(jobs=[{"name": "", "document": b"x" * size, "position": 1}])


@given(sizes=SIZES, limit=st.integers(0, 4000))
def test_the_newest_changes_that_fit_are_kept(sizes: list[int], limit: int) -> None:
    recent = RecentChanges("0", limit)
    edits = [edit(size) for size in sizes]
    for number, each in enumerate(edits, start=1):
        recent.add(str(number), each)
    for last in range(len(edits) + 1):
        rest = edits[last:]
        fits = sum(sizes[last:]) + CHANGE_BYTES * len(rest) <= limit
        assert recent.after(str(last)) == (rest if fits else None)
    assert recent.after("another program's") is None
