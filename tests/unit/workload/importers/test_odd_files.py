"""Byte order marks, pipes, files beside traces, and traces of PyTorch's oldest schema."""

from __future__ import annotations

import io
import os
import threading
from functools import partial
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.model.errors import InputError
from controller.workload.importers.base import ImportRequest, Source
from controller.workload.importers.chakra import read
from controller.workload.importers.guess import guess
from controller.workload.importers.registry import FORMATS, importer
from controller.workload.importers.streams import open_sources, text_source
from tests.unit.workload.importers.nccl.nccl_logs import logs
from tests.unit.workload.importers.nccl.nccl_runs import NEWEST, SMALL
from tests.unit.workload.importers.traces.small_traces import calls, comms, flows, pytorch, sources, tensor

MATRIX = "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 7\n"
TOPOLOGY = (
    "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\n"
    "Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\n"
)
AICB = "MICRO\n1\nrow -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 7 1\n"


@pytest.mark.parametrize("text", [MATRIX, TOPOLOGY])
def test_a_byte_order_mark_is_no_part_of_a_text(text: str) -> None:
    plain = importer("htsim")([text_source("x", text)], ImportRequest())
    marked = importer("htsim")([text_source("x", "\ufeff" + text)], ImportRequest())
    assert (marked.ranks, marked.fabric, marked.job.flows.src) == (plain.ranks, plain.fabric, plain.job.flows.src)


def test_a_byte_order_mark_before_a_workload_is_no_part_of_its_head(tmp_path: Path) -> None:
    file, fabric = tmp_path / "a.txt", tmp_path / "f.yaml"
    file.write_text("\ufeff" + AICB)
    fabric.write_text("clos: {spines: 1, leaves: 2, hosts_per_leaf: 2, host_gbps: 100, uplink_gbps: 100}\n")
    with pytest.raises(SystemExit) as end:
        main(["import", "aicb", str(file), "--fabric", str(fabric), "--out", str(tmp_path / "job.json")])
    assert not end.value.code


@pytest.mark.parametrize("words", ["msg", "msg 3"])
def test_uet_htsims_messages_are_read(words: str) -> None:
    text = MATRIX.replace("id 1 start", f"id 1 {words} start")
    assert importer("htsim")([text_source("x.cm", text)], ImportRequest()).job.flows.bytes.tolist() == [7]


def test_text_that_is_not_utf_8_is_refused_in_words() -> None:
    content = b'{"schema": "1.0.1", "nodes": [{"name": "a\xff"}]}'
    with pytest.raises(InputError, match=r"^trace.0.json: is not JSON: it is not UTF-8 text$"):
        read(sources([content], "json"), ImportRequest())


def test_code_that_pytorch_keeps_beside_a_trace_is_left_out() -> None:
    def source(name: str, content: bytes) -> Source:
        return Source(name, lambda: io.BytesIO(content), len(content))

    trace = pytorch(comms([tensor(3)], [1, False], ["0", ""], 0, "allreduce", [], [], 0, 1, 2))
    imported = read(
        [
            source("a.tar/et_0_resources/triton_1.py", b"import torch"),
            source("a.tar/et_0.json", trace),
            source("a.tar/et_0_resources/kernel.cubin", b"\x7fELF"),
        ],
        ImportRequest(),
    )
    assert calls(imported.job) == [("0-all_reduce", "all_reduce", (0, 1), 12)]
    assert "2 files of code beside the traces are left out" in imported.notes


def old_trace(rank: int, address: int, *more: dict[str, object]) -> bytes:
    reduce = comms([[tensor(100)]], 147, address, rank, "allreduce", [], [])
    exchange = comms([tensor(8)], 148, address, rank, "all_to_allv", [1, 3], [2, 2])
    return pytorch(comms(1, 0, rank, "wait", [], []), reduce, exchange, *more)


def test_a_group_that_each_rank_names_by_an_address_is_one() -> None:
    contents = [(rank, old_trace(rank, 93_000_000 + rank)) for rank in (1, 0)]
    files = [Source(f"dlrm_{rank}.json", partial(io.BytesIO, content), 1) for rank, content in contents]
    imported = read(files, ImportRequest())
    assert calls(imported.job) == [("group0-all_reduce", "all_reduce", (0, 1), 400)]
    assert flows(imported.job) == [("rank0", "rank1", 24), ("rank1", "rank0", 8)]
    assert not any("does not contain its rank" in note for note in imported.notes)


def test_groups_by_address_that_ranks_use_otherwise_are_refused() -> None:
    more = comms([tensor(8)], 149, 93_000_009, 1, "all_gather", [], [])
    with pytest.raises(InputError, match="equal groups cannot be identified"):
        read(sources([old_trace(0, 93_000_000), old_trace(1, 93_000_001, more)], "json"), ImportRequest())


def test_dlrms_traces_are_one_group_of_eight(shared_data: Path) -> None:
    imported = read(open_sources([shared_data / "param/dlrm_pytorch_et.tar.gz"]), ImportRequest())
    (call,) = imported.job.collectives
    assert (call.bytes, call.ranks) == (2_485_252, tuple(range(8)))
    assert (imported.ranks, imported.groups) == (8, 1)
    # Rank 2 is the one that sends 1664 of 3392 rows to rank 3: it is known by its records, not by its position.
    assert not any("by its position" in note for note in imported.notes)


def test_a_fifo_is_read_as_the_file_is(tmp_path: Path) -> None:
    text = "".join(logs(SMALL, NEWEST)).encode()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(text,), daemon=True)
    writer.start()
    (source,) = open_sources([pipe])
    writer.join()
    for _ in range(2):
        with source.open() as stream:
            assert stream.read() == text


def test_standard_input_is_read_as_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(MATRIX.encode())))
    job = tmp_path / "job.json"
    with pytest.raises(SystemExit) as end:
        main(["import", "htsim", "-", "--out", str(job)])
    assert not end.value.code
    assert '"bytes": 7' in job.read_text()


@pytest.mark.parametrize("kind", list(FORMATS))
@pytest.mark.parametrize("content", ["[" * 100_000, '{"a":' * 100_000, "", "null", "\0" * 64, "caf\xe9\n"])
def test_a_file_of_no_format_is_refused_in_one_line(kind: str, content: str) -> None:
    data = content.encode("latin-1")
    with pytest.raises(InputError) as error:
        importer(kind)([Source("x", lambda: io.BytesIO(data), len(data))], ImportRequest())
    assert "\n" not in str(error.value)
    with pytest.raises(InputError):
        importer(kind)([], ImportRequest())


@pytest.mark.parametrize("kind", [name for name, row in FORMATS.items() if row.text])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_as_the_reason_why_a_text_cannot_be_read(kind: str, encoding: str) -> None:
    data = '{"traceEvents": []}\n# a text\n1 2 3\n'.encode(encoding)
    source = Source("x.txt", lambda: io.BytesIO(data), len(data))
    with pytest.raises(InputError, match=r"^x.txt: is UTF-16 text: convert it to UTF-8"):
        importer(kind)([source], ImportRequest())
    (row,) = guess([source])
    assert "UTF-16" in row.holds
