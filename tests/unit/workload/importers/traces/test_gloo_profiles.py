"""Traces of torch.profiler of jobs whose collectives Gloo carries out become what their ranks sent."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from tests.unit.laws import examples
from tests.unit.workload.importers.traces.pytorch_files import event, kineto, of_gloo, trace
from tests.unit.workload.importers.traces.small_traces import calls

WIDTH = {"float": 4, "c10::BFloat16": 2, "long int": 8, "double": 8, "int": 4, "c10::Half": 2, "signed char": 1}
OPS = {"all_reduce": 1, "all_gather": 4, "reduce_scatter": 1, "broadcast": 1}
"""Operations, and how often a rank's tensors are in the whole."""
GROUP = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]}
WHERE: dict[str, Any] = {"backend": "gloo", "world_size": 4, "pg_config": [GROUP]}

tensors = st.tuples(st.lists(st.integers(0, 50), max_size=3), st.sampled_from(sorted(WIDTH)))
runs = st.lists(st.tuples(st.sampled_from(sorted(OPS)), st.lists(tensors, max_size=3)), min_size=1)


@settings(deadline=None, max_examples=examples(25, 150))
@given(runs=runs, iterations=st.integers(1, 4))
def test_collectives_have_the_bytes_of_the_tensors_of_all_their_runs(
    runs: list[tuple[str, list[tuple[list[int], str]]]], iterations: int
) -> None:
    expected: Counter[str] = Counter()
    for op, given_ in runs:
        expected[op] += OPS[op] * sum(math.prod(shape) * WIDTH[name] for shape, name in given_)
    events = [of_gloo(op, *given_) for op, given_ in runs]
    # A barrier has no tensors.
    events += [{"name": "gloo:barrier", "args": {}}, {"name": "c10d::allreduce_", "args": {"Input Dims": [[[5]]]}}]
    imported = kineto(*(trace(*events, rank=rank, **WHERE) for rank in range(4)), iterations=iterations)
    assert {op: size for _, op, _, size in calls(imported.job)} == {
        op: -(-size // iterations) for op, size in expected.items()
    }
    for _, op, ranks, _ in calls(imported.job):
        # Gloo's rings send from each rank to the one before it.
        assert ranks == ((0, 1, 2, 3) if op == "broadcast" else (3, 2, 1, 0))


def test_events_of_nccl_count_where_there_are_any() -> None:
    nccl = event("record_param_comms", "allreduce", 10, "Float")
    imported = kineto(*(trace(nccl, of_gloo("all_reduce", ([5], "float")), rank=rank) for rank in (0, 1)))
    assert calls(imported.job) == [("0-all_reduce", "all_reduce", (0, 1), 40)]


def test_what_has_no_peer_or_is_unknown_is_left_out_with_a_warning() -> None:
    events = [of_gloo(op, ([5], "float")) for op in ("all_reduce", "send", "magic")]
    imported = kineto(*(trace(*events, rank=rank, **WHERE) for rank in range(4)))
    assert len(calls(imported.job)) == 1
    assert any("send without its peer" in warning for warning in imported.warnings)
    assert any("gloo:magic" in warning for warning in imported.warnings)


OTHER = {"pg_name": "1", "ranks": [0, 1]}


@pytest.mark.parametrize(
    ("made", "more", "reason"),
    [
        ({"name": "gloo:all_reduce", "args": {}}, {}, "has 1 events of Gloo without shapes; record_shapes=True"),
        ({"name": "gloo:all_reduce"}, {}, "has 1 events of Gloo without shapes"),
        (of_gloo("all_reduce", ([-1], "float")), {}, r"\[-1\] is not a shape"),
        (of_gloo("all_reduce", ([True], "float")), {}, "is not a shape"),
        (of_gloo("all_reduce", ([1], "Rational")), {}, "'Rational' is an unknown data type"),
        (of_gloo("all_reduce", ([2**52, 2**52], "float")), {}, "bytes are not in"),
        ({"name": "gloo:all_reduce", "args": {"Input Dims": [[1]], "Input type": []}}, {}, "not lists of one length"),
        (of_gloo("all_reduce", ([1], "float")), {"pg_config": [GROUP, OTHER]}, "has 2 groups, and events of Gloo do"),
    ],
)
def test_a_trace_that_does_not_tell_what_was_sent_is_refused_with_its_field(
    made: dict[str, Any], more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=reason) as refused:
        kineto(trace(made, rank=0, **{**WHERE, **more}))
    assert refused.value.source == "worker0.json"
