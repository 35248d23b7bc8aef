"""The search for swapped cables finds what comparing every pair of missing cables does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.southbound.cabling.cable_findings import swapped
from controller.southbound.cabling.findings import Finding

FABRIC = clos(4, 4, 1, parallel=2)
ENDS = st.tuples(
    st.sampled_from([leaf.name for leaf in FABRIC.leaves]), st.sampled_from([spine.name for spine in FABRIC.spines])
)


def compared(
    intended: Fabric, missing: list[int], extra: list[tuple[str, str]]
) -> tuple[list[Finding], list[int], list[tuple[str, str]]]:
    """Every missing cable with every other."""
    findings, extra = [], list(extra)
    gone = {intended.cable_names[c]: (c, intended.cables[c].lower, intended.cables[c].upper) for c in missing}
    for first, (_, a, x) in list(gone.items()):
        for second, (_, b, y) in list(gone.items()):
            if first in gone and second in gone and (a, y) in extra and (b, x) in extra and a != b and x != y:
                extra.remove((a, y))
                extra.remove((b, x))
                del gone[first], gone[second]
                text = f"{first} and {second} are swapped: {a} is cabled to {y} and {b} to {x}"
                findings.append(Finding("swapped", f"{first}, {second}", text))
    return findings, [c for c, _, _ in gone.values()], extra


@given(missing=st.sets(st.integers(0, len(FABRIC.cables) - 1)), extra=st.lists(ENDS, max_size=20))
def test_swapped_cables_are_those_that_comparing_all_pairs_finds(
    missing: set[int], extra: list[tuple[str, str]]
) -> None:
    assert swapped(FABRIC, sorted(missing), extra) == compared(FABRIC, sorted(missing), extra)
