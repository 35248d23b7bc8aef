"""Files of NCCL Inspector to sightings: every byte of every edge, whenever the files are read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.base import ImportRequest, Source
from controller.workload.importers.nccl import read
from controller.workload.importers.nccl.feeder import InspectorFeeder
from controller.workload.importers.nccl.tallies import QpTally, TallyQp, sightings_of
from controller.workload.importers.streams import text_source
from tests.unit.workload.importers.nccl.inspector_records import (
    FORMATS,
    Done,
    file_name,
    files_of,
    iterations,
    lines_of,
)
from tests.unit.workload.importers.nccl.nccl_logs import STYLES, Cluster, logs

FACTOR = {"AllReduce": 2, "AllGather": 1, "ReduceScatter": 1}
"""Of a ring of n: each rank sends so many times (n - 1) / n of the buffer."""
PART = ("AllGather", "ReduceScatter")
"""Of which a record has one rank's part."""

runs = st.lists(
    st.builds(
        lambda name, size, seconds: Done(name, size, 0.0, seconds),
        st.sampled_from(sorted(FACTOR)),
        st.integers(10**4, 10**9),
        st.floats(0.001, 0.5),
    ),
    min_size=1,
    max_size=6,
)


def one_after_the_other(run: Sequence[Done]) -> list[Done]:
    at, found = 1.7e9, []
    for done in run:
        found.append(done._replace(begin=at))
        at += done.seconds + 0.1
    return found


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def feeder(folder: Path, n: int, log: Sequence[Source] = ()) -> InspectorFeeder:
    return InspectorFeeder([folder], lambda: log, ImportRequest(), [f"h{rank + 1}" for rank in range(n)])


def last(tallies: Sequence[QpTally]) -> dict[tuple[str, str], int]:
    """Bytes of each edge at the end; each is one QP here."""
    ends: dict[TallyQp, QpTally] = {}
    for tally in tallies:
        before = ends.setdefault(tally.qp, tally)
        assert tally.at >= before.at
        assert tally.bytes >= before.bytes
        ends[tally.qp] = tally
    assert len({(qp.src, qp.dst) for qp in ends}) == len(ends)
    return {(qp.src, qp.dst): tally.bytes for qp, tally in ends.items()}


@given(n=st.integers(2, 9), run=runs, form=st.sampled_from(FORMATS), verbose=st.booleans())
def test_each_edge_of_the_ring_gets_the_bytes_of_each_operation(
    tmp_path_factory: pytest.TempPathFactory, n: int, run: list[Done], form: str, verbose: bool
) -> None:
    folder = tmp_path_factory.mktemp("inspector")
    write(folder, dict(files_of(n, one_after_the_other(run), form=form, verbose=verbose)))
    found = last(feeder(folder, n).step())
    sent = sum(FACTOR[done.name] * (n - 1) / n * done.bytes * (n if done.name in PART else 1) for done in run)
    assert found.keys() == {(f"h{rank + 1}", f"h{(rank + 1) % n + 1}") for rank in range(n)}
    for size in found.values():
        assert size == pytest.approx(sent, rel=1e-6, abs=2)


@given(order=st.permutations(range(6)))
def test_the_rings_of_the_log_are_the_edges(tmp_path_factory: pytest.TempPathFactory, order: list[int]) -> None:
    folder = tmp_path_factory.mktemp("inspector")
    write(folder, dict(files_of(6, iterations(10**8, 3, 1.0, 0.2))))
    cluster = Cluster(6, 1, 1, (tuple(order),), ((-1, 0, 0, 1, 1, 2),))
    log = [text_source(f"rank{rank}.log", text) for rank, text in enumerate(logs(cluster, STYLES[3]))]
    found = last(feeder(folder, 6, log).step())
    edges = {(f"h{a + 1}", f"h{b + 1}") for a, b in pairwise([*order, order[0]])}
    assert found.keys() == edges
    assert all(size == pytest.approx(3 * 2 * 5 / 6 * 1e8, rel=1e-6) for size in found.values())


@given(data=st.data(), form=st.sampled_from(FORMATS))
def test_files_that_grow_give_what_whole_files_give(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, form: str
) -> None:
    n, run = 3, iterations(10**8, 4, 1.0, 0.2)
    files = files_of(n, run, form=form)
    whole, growing = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("growing")
    write(whole, dict(files))
    reader, found = feeder(growing, n), []
    cuts = {name: sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4))) for name, text in files.items()}
    for step in range(5):
        for name, text in files.items():
            end = cuts[name][step] if step < len(cuts[name]) else len(text)
            (growing / name).write_text(text[:end])
        found += reader.step()
    assert reader.waiting == 0
    expected = feeder(whole, n).step()
    assert sorted(found) == sorted(expected)


def test_small_operations_by_trees_and_large_ones_by_rings_have_edges_of_their_own(tmp_path: Path) -> None:
    parents = (-1, 0, 0, 1)
    small = Done("AllReduce", 10**6, 1.7e9, 0.01, "TREE")
    large = Done("AllReduce", 10**9, 1.7e9 + 1.0, 0.2)
    write(tmp_path, dict(files_of(4, [small, large, small._replace(begin=1.7e9 + 2.0)])))
    log = [
        text_source(f"{i}.log", text)
        for i, text in enumerate(logs(Cluster(4, 1, 1, ((0, 2, 1, 3),), (parents,)), STYLES[3]))
    ]
    found = last(feeder(tmp_path, 4, log).step())
    expected: dict[tuple[int, int], float] = {}
    for a, b in pairwise((0, 2, 1, 3, 0)):
        expected[a, b] = 2 * 3 / 4 * 1e9
    for child, parent in enumerate(parents):
        if parent >= 0:
            for edge in ((child, parent), (parent, child)):
                expected[edge] = expected.get(edge, 0.0) + 2e6
    assert {(f"h{a + 1}", f"h{b + 1}"): pytest.approx(size, rel=1e-6) for (a, b), size in expected.items()} == found


def test_operations_wait_for_the_records_of_all_ranks(tmp_path: Path) -> None:
    files = files_of(3, iterations(10**8, 2, 1.0, 0.2))
    write(tmp_path, {name: text for name, text in files.items() if name != file_name(1)})
    reader = feeder(tmp_path, 3)
    assert reader.step() == []
    assert reader.waiting == 4
    write(tmp_path, dict(files))
    assert len(last(reader.step())) == 3
    assert reader.waiting == 0


def test_sends_go_to_their_peers(tmp_path: Path) -> None:
    rows = []
    for rank, peer, kind in ((0, 2, "Send"), (2, 0, "Recv"), (1, 2, "Send"), (2, 1, "Recv")):
        (line,) = lines_of(rank, 3, Done("AllReduce", 1, 1.7e9, 0.1), 0, form="v4.2")
        record = json.loads(line)
        del record["coll_perf"]
        row = {"p2p": kind, "p2p_sn": 0, "p2p_peer": peer, "p2p_msg_size_bytes": 5000, "p2p_exec_time_us": 100_000}
        rows.append(json.dumps(record | {"p2p_perf": row}))
    (tmp_path / "all.log").write_text("".join(f"{row}\n" for row in rows))
    assert last(feeder(tmp_path, 3).step()) == {("h1", "h3"): 5000, ("h2", "h3"): 5000}


def test_old_operations_are_left_out_and_receives_alone_tell_nothing(tmp_path: Path) -> None:
    run = iterations(10**8, 4, 10.0, 0.2)
    write(tmp_path, dict(files_of(2, run)))
    reader = feeder(tmp_path, 2)
    found = reader.step(run[2].begin)
    assert reader.left_out == 4
    assert min(tally.at for tally in found) == pytest.approx(run[2].begin)
    assert set(last(found).values()) == {2 * 10**8}
    (line,) = lines_of(0, 2, run[0], 0, form="v4.2")
    record = json.loads(line)
    del record["coll_perf"]
    row = {"p2p": "Recv", "p2p_sn": 0, "p2p_peer": 1, "p2p_msg_size_bytes": 5000, "p2p_exec_time_us": 100_000}
    (tmp_path / "more.log").write_text(json.dumps(record | {"p2p_perf": row}) + "\n")
    assert reader.step() == []
    assert reader.waiting == 0


def test_the_body_of_the_request_lacks_ports_and_tells_communicators_apart(tmp_path: Path) -> None:
    for i, communicator in enumerate((7, 8)):
        files = files_of(2, iterations(10**6, 1, 1.0, 0.2), communicator=communicator)
        write(tmp_path, {f"{i}-{name}": text for name, text in files.items()})
    body = sightings_of(feeder(tmp_path, 2).step())
    qps = body["qps"]
    assert isinstance(qps, list)
    assert all(set(qp) == {"src", "dst", "dst_qp"} for qp in qps)
    assert len({tuple(qp.values()) for qp in qps}) == len(qps) == 4
    assert len({(qp["src"], qp["dst"]) for qp in qps}) == 2


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("coll_perf", "coll_exec_time_us"), None, "coll_perf.coll_exec_time_us: is missing"),
        (("coll_perf", "coll_msg_size_bytes"), -4, "coll_perf.coll_msg_size_bytes: -4: must be a whole number"),
        (("coll_perf", "coll_sn"), True, "coll_perf.coll_sn: True: must be a whole number"),
        (("coll_perf", "coll"), 3, "coll_perf.coll: 3: must be a text"),
        (("header", "rank"), 9, "header.rank: 9: the communicator has 2 ranks"),
        (("header", "n_ranks"), 0, "header.n_ranks: 0: must be 1 to"),
        (("header", "id"), "xyz", "header.id: 'xyz': must be a hexadecimal number"),
        (("metadata", "hostname"), None, "metadata.hostname: is missing"),
    ],
)
def test_a_wrong_record_is_told_in_one_line_with_file_line_and_field(
    tmp_path: Path, path: tuple[str, str], value: object, told: str
) -> None:
    good, bad = (lines_of(0, 2, done, i, form="v4.2") for i, done in enumerate(iterations(10**6, 2, 1.0, 0.2)))
    record = json.loads(bad[0])
    if value is None:
        del record[path[0]][path[1]]
    else:
        record[path[0]][path[1]] = value
    (tmp_path / "a.log").write_text(f"{good[0]}\n{json.dumps(record)}\n")
    with pytest.raises(InputError) as error:
        feeder(tmp_path, 2).step()
    assert str(error.value).startswith(f"{tmp_path / 'a.log'}:2: {told}")
    assert "\n" not in str(error.value)


def test_records_without_a_header_and_broken_ones_are_told_with_their_line(tmp_path: Path) -> None:
    _, row = lines_of(0, 2, Done("AllReduce", 1000, 1.7e9, 0.2), 0, form="v4.3")
    for text, told in ((row, "header: is missing, and no dump_stats"), (row[:30], "truncated or not JSON")):
        (tmp_path / "a.log").write_text(f"{text}\n")
        with pytest.raises(InputError, match=told) as error:
            feeder(tmp_path, 2).step()
        assert str(error.value).startswith(f"{tmp_path / 'a.log'}:1: ")


def test_hosts_must_be_told_where_nothing_else_does(tmp_path: Path) -> None:
    write(tmp_path, dict(files_of(3, iterations(10**6, 1, 1.0, 0.2))))
    with pytest.raises(InputError, match="--hosts: is needed: 3 hosts"):
        InspectorFeeder([tmp_path], tuple, ImportRequest(), None).step()
    with pytest.raises(InputError, match="--hosts: 2: 3 are needed"):
        feeder(tmp_path, 2).step()
    inventory = {(f"node{rank}", "*"): f"h{rank + 4}" for rank in range(3)}
    found = last(InspectorFeeder([tmp_path], tuple, ImportRequest(inventory=inventory), None).step())
    assert found.keys() == {("h4", "h5"), ("h5", "h6"), ("h6", "h4")}


@pytest.mark.parametrize("form", FORMATS)
def test_the_importer_reads_every_format(form: str) -> None:
    texts = files_of(4, iterations(10**6, 5, 0.5, 0.1), form=form)
    sources = [text_source(name, text) for name, text in texts.items()]
    imported = read(sources, ImportRequest(iterations=5))
    assert imported.job.flows.bytes.tolist() == [1_500_000] * 4
    assert imported.job.timing is not None
    assert imported.job.timing.period_seconds == pytest.approx(0.5, rel=1e-3)
