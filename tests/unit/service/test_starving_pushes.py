"""Pushes after which a class of priority starves are refused, and change nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.ports.api import UNCONDITIONAL
from controller.model.errors import InputError
from controller.model.files.clos import clos
from tests.unit.laws import examples
from tests.unit.service.world import ANN, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(1, 2, 6)
GBIT = 10**9 // 8


def world(starving: str = "refuse") -> World:
    return World(FABRIC, seen(FABRIC), starving=starving).planned()


def put(there: World, number: int, priority: int, send: float, compute: float) -> None:
    """Push a job that sends over the uplink for so many seconds, and computes for so many."""
    size = round(send * FABRIC.link_gbps[0] * GBIT)
    flows = [flow(f"h{number}", f"h{number + 6}", size)]
    body: dict[str, Any] = {"flows": flows, "class": priority, "compute_seconds": compute}
    there.service.put_job(f"j{number}", json.dumps(body).encode(), UNCONDITIONAL, ANN)


@settings(max_examples=examples(4, 40), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(0.1, 0.5), st.floats(0.1, 0.5)),
        min_size=2,
        max_size=5,
    )
)
def test_each_push_is_refused_if_and_only_if_the_work_above_a_class_fills_the_link(
    jobs: list[tuple[int, float, float]],
) -> None:
    there = world()
    work = dict.fromkeys(range(4), 0.0)
    try:
        for number, (priority, send, compute) in enumerate(jobs, start=1):
            after = work | {priority: work[priority] + send / (send + compute)}
            above = [sum(after[higher] for higher in range(q + 1, 4)) for q, own in after.items() if own]
            names = [job.name for job in there.service.state.jobs]
            if max(above) >= 1 - 1e-6:
                with pytest.raises(InputError, match="starves down to its floor"):
                    put(there, number, priority, send, compute)
                assert [job.name for job in there.service.state.jobs] == names
            else:
                put(there, number, priority, send, compute)
                work = after
    finally:
        there.close()


def test_the_line_names_class_link_and_work_and_the_option_allows_it() -> None:
    for starving in ("refuse", "tell"):
        there = world(starving)
        try:
            put(there, 1, 1, 0.1, 0.1)
            put(there, 2, 1, 0.1, 0.1)
            if starving == "tell":
                put(there, 3, 0, 0.1, 0.1)
                plan = there.read(lambda service: service.plan())["plan"]
                assert [row["link"] for row in plan["starved"]] == ["leaf1->spine1", "spine1->leaf2"]
                # What starves already is no reason against others.
                put(there, 4, 0, 0.1, 0.1)
                continue
            with pytest.raises(InputError) as refused:
                put(there, 3, 0, 0.1, 0.1)
            assert (refused.value.field, refused.value.value) == ("name", "j3")
            assert refused.value.reason == (
                "class 0 starves down to its floor on leaf1->spine1: packets of the classes above need this link 1.00 "
                "of the time; 1 more on links (starving = tell allows it)"
            )
            # As a failure of a link is no push, nor is a job that leaves.
            there.delete("j1")
            put(there, 3, 0, 0.1, 0.1)
        finally:
            there.close()
