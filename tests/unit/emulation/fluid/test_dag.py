"""Graphs of tasks in time."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.dag import Dag
from controller.model.errors import InputError
from emulation.fluid.dag import NO_LINK, DagNetwork, ideal_switch, max_min, run
from tests.unit.laws import examples

EXAMPLES = Path(__file__).parents[4] / "examples"


def dag(n_ranks: int, rows: list[tuple[int, int, float]], edges: list[tuple[int, int]]) -> Dag:
    """Args: rows: (rank, peer or -1, bytes or seconds)."""
    return Dag(
        n_ranks,
        np.array([row[0] for row in rows], dtype=np.int32),
        np.array([row[1] for row in rows], dtype=np.int32),
        np.array([row[2] if row[1] >= 0 else 0 for row in rows], dtype=np.int64),
        np.array([row[2] if row[1] < 0 else 0.0 for row in rows], dtype=np.float64),
        np.zeros(len(rows), dtype=np.int32),
        np.array([a for a, _ in edges], dtype=np.int32),
        np.array([b for _, b in edges], dtype=np.int32),
    )


@st.composite
def networks(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    n_links, pairs = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    rows = [draw(st.lists(st.integers(0, n_links - 1), min_size=1, max_size=3, unique=True)) for _ in range(pairs)]
    links = np.array([row + [NO_LINK] * (3 - len(row)) for row in rows], dtype=np.int32)
    count = np.array([draw(st.integers(0, 3)) for _ in range(pairs)])
    capacity = np.array([draw(st.sampled_from([1.0, 10.0, 25.0, 100.0])) for _ in range(n_links)])
    return links, count, capacity


@settings(deadline=None, max_examples=examples(75, 450))
@given(network=networks())
def test_every_transfer_has_a_full_link_on_which_no_other_is_faster(network: tuple[np.ndarray, ...]) -> None:  # type: ignore[type-arg]
    """Bertsekas and Gallager, Data Networks, 6.5.2: that is max-min fairness."""
    links, count, capacity = network
    rate = max_min(links, count, capacity)
    load = np.zeros(len(capacity))
    for p, row in enumerate(links):
        for link in row[row != NO_LINK]:
            load[link] += rate[p] * count[p]
    assert np.all(load <= capacity * (1 + 1e-9))
    for p in np.flatnonzero(count).tolist():
        own = links[p][links[p] != NO_LINK]
        assert any(
            load[link] >= capacity[link] * (1 - 1e-9)
            and all(rate[q] <= rate[p] * (1 + 1e-9) for q in np.flatnonzero(count) if link in links[q])
            for link in own
        )


@settings(deadline=None, max_examples=examples(30, 180))
@given(data=st.data())
def test_a_task_begins_when_all_before_it_have_ended_and_no_byte_is_lost(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 4))
    rows = []
    for _ in range(data.draw(st.integers(1, 12))):
        rank = data.draw(st.integers(0, n - 1))
        peer = data.draw(st.sampled_from([-1, (rank + 1) % n]))
        rows.append((rank, peer, data.draw(st.integers(0, 10**9)) if peer >= 0 else data.draw(st.floats(0, 1))))
    edges = [(a, b) for b in range(len(rows)) for a in range(b) if data.draw(st.integers(0, 3)) == 0]
    one = dag(n, rows, edges)  # type: ignore[arg-type]
    found = run(one, ideal_switch(one, 100.0))
    for a, b in edges:
        assert found.begin[b] >= found.end[a] - 1e-9
    assert np.all(found.end >= found.begin)
    gbit = one.bytes * 8e-9
    assert found.gbit[:n].sum() == pytest.approx(gbit.sum(), rel=1e-6, abs=1e-9)
    # No message is faster than its link, and no rank computes two things at once.
    sends = one.is_message
    assert np.all((found.end - found.begin)[sends] >= gbit[sends] / 100.0 * (1 - 1e-6) - 1e-9)
    for rank in range(n):
        mine = np.flatnonzero((one.rank == rank) & (one.seconds > 0))
        spans = sorted((found.begin[t], found.end[t]) for t in mine)
        assert all(after[0] >= before[1] - 1e-9 for before, after in itertools.pairwise(spans))


def test_two_messages_share_a_link_until_one_has_ended() -> None:
    one = dag(3, [(0, 1, 12_500_000), (0, 2, 25_000_000)], [])
    found = run(one, ideal_switch(one, 100.0))
    assert found.end.tolist() == pytest.approx([2e-3, 3e-3])


def test_a_circle_and_a_pair_without_a_way_are_refused() -> None:
    with pytest.raises(InputError, match="2 tasks wait for each other"):
        run(dag(1, [(0, -1, 1.0), (0, -1, 1.0)], [(0, 1), (1, 0)]), ideal_switch(dag(1, [], []), 1.0))
    no_way = DagNetwork(np.zeros((0, 2), dtype=np.int32), np.zeros(0), {})
    with pytest.raises(InputError, match="there is no path from rank 0 to rank 1"):
        run(dag(2, [(0, 1, 5.0)], []), no_way)


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, float]:
    with pytest.raises(SystemExit) as end:
        main(["replay", *arguments, "--format", "json"])
    assert not end.value.code, capsys.readouterr().err
    return {row["paths"]: row["seconds"] for row in json.loads(capsys.readouterr().out)["runs"]}


def test_the_command_plays_a_graph_on_a_switch_and_on_a_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    graph, fabric = str(EXAMPLES / "goal" / "two-layers.goal"), str(EXAMPLES / "clos-4x4x4.yaml")
    times = replayed(capsys, "goal", graph, "--fabric", fabric, "--policies", "fair,ecmp", "--placement", "scattered")
    assert times == pytest.approx({"one ideal switch": 8e-3, "fair": 8e-3, "ecmp": 8e-3})


@pytest.mark.parametrize("fabric", ["fat-tree-k4.yaml", "two-planes-4x4x4.yaml", "dual-tor.yaml"])
def test_no_fabric_is_faster_than_one_switch_with_its_nics(fabric: str, capsys: pytest.CaptureFixture[str]) -> None:
    graph = str(EXAMPLES / "goal" / "two-layers.goal")
    times = replayed(capsys, "goal", graph, "--fabric", str(EXAMPLES / fabric), "--placement", "scattered")
    assert min(times.values()) == pytest.approx(times["one ideal switch"])
    assert times["one ideal switch"] <= 8e-3


def test_the_command_refuses_files_without_a_graph(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["replay", "nccl-tests", str(EXAMPLES / "nccl-tests" / "all_reduce.txt")])
    assert end.value.code == 2
    assert "contains no task graph" in capsys.readouterr().err


def test_messages_within_a_server_take_no_time_in_a_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fabric, schedule = tmp_path / "fabric.yaml", tmp_path / "a.goal"
    fabric.write_text("clos: {spines: 2, leaves: 2, hosts_per_leaf: 4, nics_per_server: 2}\n")
    schedule.write_text(
        "num_ranks 3\nrank 0 {\nl1: send 1000000000b to 1\nl2: send 1000000000b to 2\n}\n"
        "rank 1 {\nl1: recv 1000000000b from 0\n}\nrank 2 {\nl1: recv 1000000000b from 0\n}\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["replay", "goal", str(schedule), "--fabric", str(fabric), "--format", "json"])
    assert not end.value.code
    runs = {row["paths"]: row["seconds"] for row in json.loads(capsys.readouterr().out)["runs"]}
    assert runs == pytest.approx({"one ideal switch": 0.16, "fair": 0.08, "ecmp": 0.08})
