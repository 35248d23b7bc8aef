"""GOAL schedules, as text and as binary, become what their ranks send and wait for."""

from __future__ import annotations

import io
import struct
from collections import Counter
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.dag import Dag
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.workload.expand import expand
from controller.workload.exporters.goal import goal_lines
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.dags import DagBuilder, check_acyclic
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from controller.workload.job_file import parse_job
from emulation.fluid.dag import ideal_switch, run
from tests.unit.laws import examples

EXAMPLE = Path(__file__).parents[4] / "examples" / "goal" / "two-layers.goal"


def read(content: str | bytes) -> Imported:
    data = content.encode() if isinstance(content, str) else content
    return importer("goal")([Source("x.goal", lambda: io.BytesIO(data), len(data))], ImportRequest())


def dag_of(imported: Imported) -> Dag:
    assert imported.dag is not None
    return imported.dag


def messages(imported: Imported) -> Counter[tuple[int, int, int]]:
    dag = dag_of(imported)
    sends = dag.is_message
    return Counter(zip(dag.rank[sends].tolist(), dag.peer[sends].tolist(), dag.bytes[sends].tolist(), strict=True))


# An operation: (kind, peer or -1, bytes or ns, tag, processor), and which earlier ones it waits for.
Operation = tuple[str, int, int, int, int, list[int]]


@st.composite
def schedules(draw: st.DrawFn) -> list[list[Operation]]:
    n = draw(st.integers(2, 5))
    ranks: list[list[Operation]] = [[] for _ in range(n)]
    # In one global order, so that no circle can be.
    for _ in range(draw(st.integers(1, 15))):
        src = draw(st.integers(0, n - 1))
        if draw(st.booleans()):
            ranks[src].append(("calc", -1, draw(st.integers(0, 10**9)), 0, draw(st.integers(0, 3)), []))
        else:
            dst = (src + draw(st.integers(1, n - 1))) % n
            size, tag = draw(st.integers(0, 10**9)), draw(st.integers(0, 2))
            ranks[src].append(("send", dst, size, tag, 0, []))
            ranks[dst].append(("recv", src, size, tag, 0, []))
    for rows in ranks:
        for i in range(1, len(rows)):
            rows[i][5].extend(sorted(draw(st.sets(st.integers(0, i - 1), max_size=2))))
    return ranks


def text_of(ranks: list[list[Operation]]) -> str:
    out = [f"num_ranks {len(ranks)}"]
    for r, rows in enumerate(ranks):
        out.append(f"rank {r} {{")
        for i, (kind, peer, amount, tag, cpu, _) in enumerate(rows):
            way = "to" if kind == "send" else "from"
            out.append(
                f"l{i}: calc {amount} cpu {cpu}" if kind == "calc" else f"l{i}: {kind} {amount}b {way} {peer} tag {tag}"
            )
        out += [f"l{i} requires l{other}" for i, row in enumerate(rows) for other in row[5]]
        out.append("}")
    return "\n".join(out)


def binary_of(ranks: list[list[Operation]], extra: int = 0) -> bytes:
    """As LogGOPSim's Parser.hpp lays it out."""
    parts = []
    for rows in ranks:
        waiting: list[list[int]] = [[] for _ in rows]
        for i, row in enumerate(rows):
            for other in row[5]:
                waiting[other].append(i)
        roots = [i for i, row in enumerate(rows) if not row[5]]
        out = struct.pack(f"<II{len(roots)}I", len(rows), len(roots), *roots)
        at = 0
        for row, after in zip(rows, waiting, strict=True):
            kind = {"send": 1, "recv": 2, "calc": 3}[row[0]]
            out += struct.pack("<IBIQIBB", len(row[5]), kind, max(0, row[1]), row[2], row[3], row[4], 0)
            out += struct.pack("<IIII", len(after), at if after else 999, 0, 2**32 - 1) + bytes(extra)
            at += len(after)
        parts.append(out + b"".join(struct.pack(f"<{len(after)}I", *after) for after in waiting))
    head = 6 + 16 * len(ranks)
    spans, at = b"", head
    for part in parts:
        spans += struct.pack("<QQ", at, at + len(part))
        at += len(part)
    return struct.pack("<QIBB", 4223, len(ranks), 3, 0) + spans + b"".join(parts)


@settings(deadline=None, max_examples=examples(20, 120))
@given(ranks=schedules())
def test_text_and_binary_are_the_schedule_that_was_written(ranks: list[list[Operation]]) -> None:
    expected = Counter((r, row[1], row[2]) for r, rows in enumerate(ranks) for row in rows if row[0] == "send")
    computing = sorted((r, row[2]) for r, rows in enumerate(ranks) for row in rows if row[0] == "calc" and row[2])
    times = []
    for content in (text_of(ranks), binary_of(ranks), binary_of(ranks, extra=65)):
        imported = read(content)
        dag = dag_of(imported)
        assert messages(imported) == expected
        busy = dag.seconds > 0
        took = np.rint(dag.seconds[busy] * 1e9).astype(int).tolist()
        assert sorted(zip(dag.rank[busy].tolist(), took, strict=True)) == computing
        assert imported.ranks == len(ranks)
        assert int(imported.job.flows.bytes.sum()) == sum(size * n for (_, _, size), n in expected.items())
        assert imported.warnings == ()
        times.append(run(dag, ideal_switch(dag, 100.0)).seconds)
    assert times[1:] == pytest.approx([times[0], times[0]])


def test_sends_overlap_with_computing_and_a_flattened_job_does_not_say_so() -> None:
    imported = importer("goal")(open_sources([EXAMPLE]), ImportRequest())
    # 100 Gbit/s: 2 ms for 25 MB while 3 ms are computed, then 1 ms for 12.5 MB.
    assert run(dag_of(imported), ideal_switch(dag_of(imported), 100.0)).seconds == pytest.approx(8e-3)
    assert imported.job.flows.bytes.tolist() == [37_500_000, 37_500_000]
    assert "'fairspine replay' uses their order" in imported.notes[0]


def test_a_send_without_a_receive_is_a_warning() -> None:
    text = "num_ranks 2\nrank 0 {\nl1: send 5b to 1 tag 3\n}\nrank 1 {\nl1: recv 5b from 0 tag 4\n}\n"
    imported = read(text)
    assert "line 3 has no matching receive: rank 0 sends rank 1 1 messages with tag 3" in imported.warnings[0]
    assert messages(imported) == Counter({(0, 1, 5): 1})


def test_a_task_that_waits_for_anothers_start_does_not_wait_for_its_end() -> None:
    body = "l1: calc 1000000\nl2: calc 5000000 cpu 1\nl3: calc 2000000 cpu 2\nl2 requires l1\nl3 {}requires l2"
    text = "num_ranks 1\nrank 0 {{\n" + body + "\n}}\n"
    dags = [dag_of(read(text.format(word))) for word in ("i", "")]
    assert [run(dag, ideal_switch(dag, 1.0)).seconds for dag in dags] == pytest.approx([6e-3, 8e-3])


def test_receives_from_any_rank_match_the_remaining_sends() -> None:
    text = (
        "num_ranks 3\nrank 0 {\nl1: recv 7b from 2 tag 4\nl2: recv 5b from -1 tag -1\nl3: recv 9b from -1 tag 4\n}\n"
        "rank 1 {\nsend 9b to 0 tag 4\n}\nrank 2 {\nsend 7b to 0 tag 4\nsend 5b to 0 tag 8\n}\n"
    )
    found = read(text)
    dag = dag_of(found)
    assert found.warnings == ()
    assert messages(found) == Counter({(1, 0, 9): 1, (2, 0, 7): 1, (2, 0, 5): 1})
    received = {
        int(dag.bytes[before]): int(after)
        for before, after in zip(dag.before, dag.after, strict=True)
        if dag.bytes[before]
    }
    assert received == {7: 0, 5: 1, 9: 2}
    unmatched = read(text.replace("recv 9b from -1 tag 4", "recv 8b from -1 tag 4"))
    assert any("any rank sends rank 0 0 messages with tag 4, and 1 are received" in text for text in unmatched.warnings)


CIRCLES = [
    ("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 5\na requires b\nb requires a\n}\n", "2 tasks of rank 0 wait for each"),
    (
        "num_ranks 2\nrank 0 {\na: recv 5b from 1\nb: send 5b to 1\nb requires a\n}\n"
        "rank 1 {\na: recv 5b from 0\nb: send 5b to 0\nb requires a\nc: calc 7\nc requires b\n}\n",
        r"4 tasks of ranks 0, 1 wait for each other, so 5 never begin",
    ),
]


@pytest.mark.parametrize(("text", "reason"), CIRCLES)
def test_tasks_that_wait_for_each_other_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read(text)


@settings(deadline=None, max_examples=examples(30, 180))
@given(n=st.integers(1, 30), edges=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60))
def test_a_graph_is_refused_if_and_only_if_it_has_a_circle(n: int, edges: list[tuple[int, int]]) -> None:
    build = DagBuilder()
    for _ in range(n):
        build.computation(0, 1.0)
    graph = networkx.DiGraph([(a % n, b % n) for a, b in edges])
    for a, b in edges:
        build.edge(a % n, b % n)
    dag = build.dag(1)
    if networkx.is_directed_acyclic_graph(graph):
        check_acyclic(dag, "x")
    else:
        with pytest.raises(InputError, match=r"x: \d+ tasks of rank 0 wait for each other"):
            check_acyclic(dag, "x")


def test_comments_and_braces_may_stand_anywhere() -> None:
    text = "/* a\nb */ num_ranks 1 // c\nrank 0 { l1: calc 5 # d\n l2: calc 7 }\n"
    assert dag_of(read(text)).n_tasks == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("num_ranks 0\n", "num_ranks|line 1"),
        ("num_ranks 1\nrank 1 {\n}\n", r"line 2: 1: there are 1 ranks"),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}\n", "line 4: 0: is described twice"),
        ("num_ranks 1\nl1: calc 5\n", "line 2: 'l1: calc 5': is outside of a rank"),
        ("num_ranks 1\nrank 0 {\nl1: calc x\n}\n", "line 3: 'l1: calc x': is not a statement"),
        ("num_ranks 1\nrank 0 {\nl1: calc 5\nl1 requires l2\n}\n", "line 4: 'l2': no operation has this label"),
        ("num_ranks 1\nrank 0 {\nl1: calc 5\nl1: calc 5\n}\n", "line 4: 'l1': this label is defined already"),
        ("num_ranks 1\nrank 0 {\nl1: send 5b to 1\n}\n", "line 3: 1: there are 1 ranks"),
        (
            "num_ranks 2\nrank 0 {\nl1: send 5b to 1\n}\nrank 1 {\nl: recv 4b from 0\n}",
            "line 3: sends 5 bytes, and",
        ),
        (binary_of([[("calc", -1, 1, 0, 0, [])]])[:-3], "rank 0"),
        (binary_of([[("calc", -1, 1, 0, 0, [])]])[:12], "ends within its header"),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_place(text: str | bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read(text)


@settings(deadline=None, max_examples=examples(25, 150))
@given(ranks=schedules(), at=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 60))
def test_damaged_binaries_are_read_or_refused_in_one_line(
    ranks: list[list[Operation]], at: int, byte: int, cut: int
) -> None:
    data = bytearray(binary_of(ranks))
    if at < len(data):
        data[at] = byte
    try:
        imported = read(bytes(data[: len(data) - cut]))
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert np.all(dag_of(imported).bytes >= 0)


def test_jobs_written_as_goal_are_read_back_with_their_phases() -> None:
    fabric = clos(2, 2, 2)
    flows = [{"src": "h1", "dst": "h3", "bytes": 12_500_000, "collective": name} for name in ("a", "b")]
    job = parse_job({"name": "j", "flows": [*flows, {"src": "h2", "dst": "h4", "bytes": 7}], "phases": {"b": 1}})
    traffic = expand(fabric, job)
    imported = read("\n".join(goal_lines(fabric.n_hosts, [traffic], compute_ns=5_000_000)))
    assert messages(imported) == Counter({(0, 2, 12_500_000): 2, (1, 3, 7): 1})
    # 5 ms of computing, then 1 ms for each phase at 100 Gbit/s.
    dag = dag_of(imported)
    assert run(dag, ideal_switch(dag, 100.0)).seconds == pytest.approx(7e-3)


REAL = [("perm64.goal", 64, 64, 64 * 500_000), ("incast128.bin", 128, 127, 127 * 500_000)]


@pytest.mark.parametrize(("file", "ranks", "sends", "size"), REAL)
def test_public_schedules_have_their_messages(shared_data: Path, file: str, ranks: int, sends: int, size: int) -> None:
    imported = importer("goal")(open_sources([shared_data / "goal" / file]), ImportRequest())
    assert (imported.ranks, sum(messages(imported).values())) == (ranks, sends)
    assert int(imported.job.flows.bytes.sum()) == size


def test_a_public_schedule_whose_sends_and_receives_differ_says_so_first(shared_data: Path) -> None:
    imported = importer("goal")(open_sources([shared_data / "goal/adv16.bin"]), ImportRequest())
    data = (shared_data / "goal/adv16.bin").read_bytes()
    spans = [struct.unpack_from("<QQ", data, 14 + 16 * rank) for rank in range(16)]
    expected: Counter[tuple[int, int, int]] = Counter()
    for rank, (begin, _) in enumerate(spans):
        count, roots = struct.unpack_from("<II", data, 8 + begin)
        for i in range(count):
            _, kind, peer, size = struct.unpack_from("<IBIQ", data, 8 + begin + 8 + 4 * roots + 39 * i)
            expected[rank, peer, size] += kind == 1
    assert messages(imported) == +expected
    assert "has no matching receive" in imported.warnings[0]
