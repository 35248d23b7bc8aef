"""Changes from rules to rules."""

from __future__ import annotations

import dataclasses

from hypothesis import strategies as st

from tests.unit.southbound.plans import Case, assignments, cases, partly_drained, traffics

ALL_PORTS = frozenset(range(1, 100))


@st.composite
def changes(draw: st.DrawFn, before: str, after: str) -> tuple[Case, Case]:
    """Two plans on one fabric, by two enforcements; they may have different jobs and drains."""
    old = draw(cases("source_port"))
    usable = draw(partly_drained(old.fabric))
    traffic = draw(st.one_of(st.just(old.traffic), traffics(old.fabric, "source_port")))
    new = Case(old.fabric, usable, traffic, draw(assignments(usable, traffic)), after, old.ecmp_action)
    return dataclasses.replace(old, enforcement=before), new
