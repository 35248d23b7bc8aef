"""Jobs written as Chakra traces are read back as the same jobs."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.exporters.chakra import chakra_files
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from controller.workload.job_file import parse_job
from tests.unit.laws import examples

EXAMPLES = Path(__file__).parents[3] / "examples"

OPS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"]


def back(job: Job) -> Imported:
    sources = [Source(name, partial(io.BytesIO, content), len(content)) for name, content in chakra_files(job)]
    return importer("chakra")(sources, ImportRequest())


@settings(deadline=None, max_examples=examples(20, 120))
@given(data=st.data())
def test_collectives_and_flows_are_read_back(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 5))
    calls = [
        {
            "name": f"c{i}",
            "op": data.draw(st.sampled_from(OPS)),
            "ranks": data.draw(st.permutations(range(n)))[: data.draw(st.integers(2, n))],
            "bytes": n * (n - 1) * (n - 2 or 1) * data.draw(st.integers(1, 10**6)) * 60,
            "phase": data.draw(st.integers(0, 3)),
        }
        for i in range(data.draw(st.integers(1, 4)))
    ]
    flows = [{"src": "h0", "dst": "h1", "bytes": data.draw(st.integers(1, 10**9))}]
    job = parse_job({"name": "j", "hosts": [f"h{i}" for i in range(n)], "collectives": calls, "flows": flows})
    again = back(job)
    expected: dict[tuple[str, tuple[int, ...]], int] = {}
    for call in job.collectives:
        expected[call.op, call.ranks] = expected.get((call.op, call.ranks), 0) + call.bytes
    assert {(call.op, call.ranks): call.bytes for call in again.job.collectives} == expected
    given_flows = list(zip(again.job.flows.src, again.job.flows.dst, again.job.flows.bytes.tolist(), strict=True))
    assert given_flows == [("rank0", "rank1", flows[0]["bytes"])]
    assert again.ranks == n


def test_a_matrix_and_hosts_that_are_no_ranks_are_refused() -> None:
    matrix = {"hosts": ["a", "b"], "bytes": [[0, 1], [1, 0]]}
    with pytest.raises(InputError, match="matrix: a matrix cannot be written"):
        list(chakra_files(parse_job({"name": "j", "matrix": matrix})))
    with pytest.raises(InputError, match=r"flows\[0\]: 'a': this host is not a rank"):
        list(chakra_files(parse_job({"name": "j", "flows": [{"src": "a", "dst": "b", "bytes": 1}]})))


def test_the_command_writes_a_folder_that_can_be_imported(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["export", "chakra", "--job", str(EXAMPLES / "gpt3-a.json"), "--out", str(tmp_path / "traces")])
    assert not end.value.code
    imported = importer("chakra")(open_sources(sorted((tmp_path / "traces").iterdir())), ImportRequest())
    assert imported.ranks == 8
