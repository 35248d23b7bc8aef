"""Profiles of JAX become the collectives of a job."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.head import head_of
from controller.workload.importers.jax import looks_like, read
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from tests.unit.workload.importers.texts import source
from tests.unit.workload.importers.traces.xplanes import (
    BF16,
    Instruction,
    Run,
    device_list,
    iota,
    listed,
    mesh,
    pairs,
    profile,
    shape,
    tuple_shape,
)


def imported(*runs: Run, iterations: int = 1) -> Imported:
    sources = [source(profile(run), f"p{i}.xplane.pb") for i, run in enumerate(runs)]
    found = read(sources, ImportRequest(iterations=iterations))
    assert document_of(parse_job(document_of(found.job))) == document_of(found.job)
    return found


def calls(found: Imported) -> dict[tuple[str, tuple[int, ...]], int]:
    return {(call.op, call.ranks): call.bytes for call in found.job.collectives}


@given(st.integers(2, 9), st.integers(1, 2000), st.integers(1, 500), st.integers(1, 6), st.integers(1, 3))
def test_an_all_reduce_has_its_bytes_in_each_step_and_falling_ranks_on_cpus(
    n: int, rows: int, columns: int, steps: int, local: int
) -> None:
    """Gradients and the loss are one tuple; several devices of a process tell the same runs."""
    gradients = tuple_shape(shape(rows, columns), shape())
    run = Run([Instruction("all-reduce.2", "all-reduce", gradients)], n, {"all-reduce.2": 2 * steps}, steps, local)
    found = imported(run, iterations=steps)
    assert calls(found) == {("all_reduce", tuple(range(n))[::-1]): 2 * (4 * rows * columns + 4)}
    assert found.ranks == n
    run.planes = ["/device:GPU:0"]
    assert calls(imported(run, run, iterations=steps)) == {
        ("all_reduce", tuple(range(n))): 2 * (4 * rows * columns + 4)
    }


@pytest.mark.parametrize(
    ("groups", "ranks"),
    [
        (b"", [(0, 1, 2, 3, 4, 5, 6, 7)]),
        (listed((0, 1, 2, 3), (4, 5, 6, 7)), [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (device_list((0, 4), (1, 5), (2, 6), (3, 7)), [(0, 4), (1, 5), (2, 6), (3, 7)]),
        (iota(4, 2, (2, 4), (1, 0)), [(0, 4), (1, 5), (2, 6), (3, 7)]),
        (iota(2, 4, (8,), (0,)), [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (mesh((2, 4), (0,)), [(0, 4), (1, 5), (2, 6), (3, 7)]),
        (mesh((2, 4), (1,)), [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (mesh((2, 2, 2), (0, 2)), [(0, 1, 4, 5), (2, 3, 6, 7)]),
    ],
)
def test_groups_are_those_of_the_program_in_whichever_form(groups: bytes, ranks: list[tuple[int, ...]]) -> None:
    run = Run([Instruction("ar", "all-reduce", shape(100), groups)], 8, {"ar": 1}, planes=["/device:TPU:0"])
    assert calls(imported(run)) == {("all_reduce", group): 400 for group in ranks}


@pytest.mark.parametrize(
    ("opcode", "of", "op", "size"),
    [
        ("all-gather", shape(100, kind=BF16), "all_gather", 200),
        ("all-gather-start", tuple_shape(shape(25), shape(100)), "all_gather", 400),
        ("all-reduce-start", shape(100), "all_reduce", 400),
        ("reduce-scatter", shape(25), "reduce_scatter", 400),
        ("all-to-all", tuple_shape(*[shape(25)] * 4), "all_to_all", 400),
    ],
)
def test_bytes_are_those_of_a_job_document(opcode: str, of: bytes, op: str, size: int) -> None:
    run = Run([Instruction("c", opcode, of)], 4, {"c": 3}, planes=["/device:TPU:0"])
    assert calls(imported(run, iterations=3)) == {(op, (0, 1, 2, 3)): size}


def test_a_permutation_is_a_message_for_each_pair() -> None:
    run = Run([Instruction("cp", "collective-permute", shape(10), pairs((0, 1), (1, 2), (2, 2)))], 3, {"cp": 2})
    assert calls(imported(run)) == {("send_recv", (0, 1)): 80, ("send_recv", (1, 2)): 80}


def test_what_did_not_run_and_steps_that_nobody_divided_by_are_told() -> None:
    both = [Instruction("ar", "all-reduce", shape(10)), Instruction("ag", "all-gather", shape(10))]
    notes = imported(Run(both, 2, {"ar": 4}, steps=4)).notes
    assert any("ag did not run" in note for note in notes)
    assert any("--iterations 4" in note for note in notes)


GOOD = profile(Run([Instruction("ar", "all-reduce", shape(10))], 4, {"ar": 1}))


def test_a_profile_is_recognised_and_the_events_beside_it_are_not() -> None:
    assert looks_like(head_of(source(GOOD, "vm.xplane.pb")))
    assert not looks_like(head_of(source(json.dumps({"traceEvents": []}), "vm.trace.json")))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (GOOD[:-3], "x.pb: is no profile of JAX"),
        (b"{}", "x.pb: is no profile of JAX"),
        (b"", "x.pb: has no compiled program"),
        (profile(Run([], 4, {})), "x.pb: no collective between devices ran"),
        (profile(Run([Instruction("ar", "all-reduce", shape(10, kind=99))], 4, {"ar": 1})), "element of type 99"),
        (
            profile(Run([Instruction("ar", "all-reduce", shape(10), listed((0, 9)))], 4, {"ar": 1})),
            "ar: .*ranks that are",
        ),
        (profile(Run([Instruction("ar", "all-reduce", shape(10), mesh((2, 2), (5,)))], 4, {"ar": 1})), "x.pb: is no "),
    ],
)
def test_files_that_cannot_be_are_refused_in_one_line(content: bytes, error: str) -> None:
    with pytest.raises(InputError, match=error) as found:
        read([source(content, "x.pb")], ImportRequest())
    assert "\n" not in str(found.value)


@given(st.data())
def test_damaged_profiles_are_read_or_refused_by_name(data: st.DataObject) -> None:
    content = bytearray(GOOD)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    try:
        read([source(bytes(content), "x.pb")], ImportRequest())
    except InputError as error:
        assert error.source == "x.pb"
