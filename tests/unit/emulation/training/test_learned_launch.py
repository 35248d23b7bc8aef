"""The links of learned jobs are compared with what the jobs send, whatever was learned when they were planned."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.training.learned_jobs import Edge
from emulation.training.learned_launch import over_links

HOSTS = [f"h{n}" for n in range(8)]
edges = st.lists(st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS)), min_size=1, max_size=6, unique=True)


@given(edges, st.data())
def test_links_are_planned_to_carry_what_jobs_send_not_what_was_learned(own: list[Edge], data: st.DataObject) -> None:
    jobs = data.draw(st.lists(st.sampled_from(["a", "b"]), min_size=len(own), max_size=len(own)))
    sizes = data.draw(st.lists(st.integers(1, 10**9), min_size=len(own), max_size=len(own)))
    steps = {"a": data.draw(st.integers(0, 100)), "b": data.draw(st.integers(0, 100))}
    sent: dict[str, dict[Edge, float]] = {"a": {}, "b": {}}
    for edge, job, size in zip(own, jobs, sizes, strict=True):
        sent[job][edge] = size
    flows, expected = [], Counter[str]()
    for edge, job, size in zip(own, jobs, sizes, strict=True):
        # Flows of one edge are of several phases, of which each has a part of what was learned.
        parts = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
        off = data.draw(st.sampled_from([0.5, 1.0, 1.3]))
        for part in parts:
            links = data.draw(st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=3, unique=True))
            of_edge = size * part / sum(parts)
            path = {"share": 1.0, "links": links}
            flows.append({"src": edge[0], "dst": edge[1], "bytes": of_edge * off, "paths": [path]})
            expected.update(dict.fromkeys(links, of_edge * steps[job]))
    assert over_links({"flows": flows}, sent, steps) == pytest.approx(dict(expected))
