"""What OpenMPI's monitoring counted becomes the flows of a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.openmpi import read
from controller.workload.importers.registry import importer
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from tests.unit.workload.importers.texts import mutated, only_our_error, renumbered, source

Counts = dict[tuple[str, int, int], int]
"""Bytes by letter of the line, rank and other rank."""

RANKS = 5


def profile(rank: int, counts: Counts) -> str:
    """Return the file of a rank."""

    def rows(letters: str) -> list[str]:
        return [
            f"{letter}\t{rank}\t{peer}\t{size} bytes\t{3} msgs sent" + ("\t0,0,3" if letter in "EI" else "")
            for (letter, own, peer), size in counts.items()
            if own == rank and letter in letters
        ]

    lines = ["# POINT TO POINT", *rows("EI"), "# OSC", *rows("SR"), "# COLLECTIVES"]
    lines += [
        f"C\t{rank}\t0\t999 bytes\t5 msgs sent",
        "D\tMPI_COMM_WORLD\tprocs: 0,1,2,3,4",
        f"A2A\t{rank}\t7 bytes\t1 msgs sent",
    ]
    return "\n".join(lines) + "\n"


def files(counts: Counts, ranks: int = RANKS) -> list[Source]:
    return [source(profile(rank, counts), f"run.{rank}.prof") for rank in range(ranks)]


def edges(imported: Imported) -> dict[tuple[str, str, str], int]:
    flows = imported.job.flows
    return dict(zip(zip(flows.collective, flows.src, flows.dst, strict=True), flows.bytes.tolist(), strict=True))


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("EISR"), st.integers(0, RANKS - 1), st.integers(0, RANKS - 1)),
        st.integers(0, 10**12),
        min_size=1,
    ).filter(lambda counts: any(size and src != dst for (_, src, dst), size in counts.items())),
    st.integers(1, 7),
)
def test_each_pair_of_ranks_has_what_it_sent_in_an_iteration(counts: Counts, iterations: int) -> None:
    expected: dict[tuple[str, str, str], int] = {}
    names = {"E": "messages", "I": "collectives", "S": "one-sided", "R": "one-sided"}
    for (letter, rank, peer), size in counts.items():
        src, dst = (peer, rank) if letter == "R" else (rank, peer)
        if src != dst and size:
            key = names[letter], f"rank{src}", f"rank{dst}"
            expected[key] = expected.get(key, 0) + size
    imported = read(files(counts), ImportRequest(iterations=iterations))
    assert edges(imported) == {key: -(-size // iterations) for key, size in expected.items()}
    assert (imported.ranks, imported.warnings) == (RANKS, ())
    again = parse_job(document_of(imported.job))
    assert document_of(again) == document_of(imported.job)


SMALL: Counts = {("I", 0, 1): 1000, ("I", 1, 0): 2000, ("E", 0, 1): 30}


def test_ranks_without_a_file_are_warned_of() -> None:
    imported = importer("openmpi-monitoring")(files(SMALL, 1), ImportRequest(protocol="tcp"))
    assert imported.warnings == ("there is no file of 4 of 5 ranks: 1, 2, 3, 4",)
    assert imported.job.protocol == "tcp"


@pytest.mark.parametrize(
    ("sources", "error"),
    [
        (lambda: [*files(SMALL), source(profile(1, SMALL), "again.prof")], "again.prof: has rank 1, as run.1.prof has"),
        (lambda: files({("I", 2, 2): 5}), "run.0.prof: no rank has sent another one anything"),
        (lambda: [source("# POINT TO POINT\nE\t0\tx\t5 bytes\t1 msgs sent\n", "a.prof")], "a.prof: line 2: "),
        (
            lambda: [source(f"E\t0\t{1 << 17}\t5 bytes\t1 msgs sent\n", "a.prof")],
            "a.prof: line 1: .*the rank is not in",
        ),
        (list, "no file is given"),
    ],
)
def test_files_that_cannot_be_are_refused_in_one_line(sources: object, error: str) -> None:
    assert callable(sources)
    with pytest.raises(InputError, match=error):
        read(sources(), ImportRequest())


@given(st.one_of(mutated(profile(0, SMALL)), renumbered(profile(0, SMALL))))
def test_damaged_files_are_read_or_refused_by_name(content: bytes) -> None:
    only_our_error(read, content)
