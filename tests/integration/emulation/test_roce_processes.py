"""Endpoints and agents as processes, a host an address of the loopback network."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from controller.model.choices.qp_mode import QP_MODES, QpMode
from controller.model.timing import IterationGrid
from emulation.roce.agent_config import to_document
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle
from emulation.roce.launcher import EmulationError
from emulation.roce.pacer import CATCH_UP_PACKETS
from emulation.roce.run import FlowKey, PieceWay, PortShare, agent_configs, run_collectives
from emulation.roce.sender import SenderOptions
from tests.rig.hosts.roce_hosts import PATIENT, ROCE, roce_server, spawn_here
from tests.rig.http.client import PATIENCE_SECONDS
from tests.roce_routes import numbered_routes

# Of the process's own, so that two runs of this file at once do not meet.
NET = f"127.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
HOSTS = {f"h{i}": f"{NET}.{i}" for i in range(1, 9)}
NAMES = tuple(HOSTS)
FAST = SenderOptions(line_rate=4e8, retries=PATIENT)


def wait_for_client(server: subprocess.Popen[str]) -> None:
    """Until the server says that a client has opened its queue pairs."""
    assert server.stderr is not None
    line = server.stderr.readline()
    assert line.startswith("client "), line


def test_a_ring_all_reduce_of_four_ranks_sums_right_and_moves_three_halves_of_the_buffer_on_each_edge() -> None:
    size = 1 << 20
    spec = CollectiveSpec("gpt", "dp0", NAMES[:4], bytes=size)
    (result,) = run_collectives(HOSTS, spawn_here, [spec], numbered_routes([spec]), options=FAST)
    assert result.checked
    assert result.wrong == ()
    edges = {(rank["rank"], flow["peer"]): flow["bytes"] for rank in result.ranks for flow in rank["flows"]}
    assert edges == {(i, (i + 1) % 4): size * 3 // 2 for i in range(4)}
    assert result.bytes == 4 * size * 3 // 2


@pytest.mark.parametrize(("op", "nths"), [("all_reduce", 2), ("all_to_all", 1), ("reduce_scatter", 1)])
def test_direct_operations_move_their_part_of_the_buffer_between_each_pair(op: str, nths: int) -> None:
    size = 3 << 16
    spec = CollectiveSpec("gpt", "c", NAMES[:3], op=op, algorithm="direct", bytes=size, dtype="float32")
    (result,) = run_collectives(HOSTS, spawn_here, [spec], numbered_routes([spec]), options=FAST)
    assert result.checked
    edges = {(rank["rank"], flow["peer"]): flow["bytes"] for rank in result.ranks for flow in rank["flows"]}
    assert edges == {(i, j): nths * size // 3 for i in range(3) for j in range(3) if i != j}


PORTS_OF = {NAMES[n]: (NAMES[n], NAMES[n + 4]) for n in range(4)}


def striped(spec: CollectiveSpec) -> dict[FlowKey, tuple[PortShare, ...]]:
    """A stripe for each port of two NICs: h1 with the addresses of h1 and h5, h2 with those of h2 and h6, ..."""
    found: dict[FlowKey, tuple[PortShare, ...]] = {}
    for key, (port,) in numbered_routes([spec]).items():
        src, dst = (PORTS_OF[nic] for nic in key[2:])
        found[key] = tuple(PortShare(port.udp_src + p, 0.5, False, src[p], dst[p], f"{key}#{p}") for p in (0, 1))
    return found


@pytest.mark.parametrize("mode", QP_MODES)
def test_a_connection_sends_its_stripes_by_all_ports_of_its_nic(mode: QpMode) -> None:
    size = 1 << 20
    spec = CollectiveSpec("gpt", "dp0", NAMES[:4], bytes=size, qp_mode=mode, message_bytes=1 << 14)
    (result,) = run_collectives(HOSTS, spawn_here, [spec], striped(spec), options=FAST, ports_of=PORTS_OF)
    assert result.checked, result.wrong
    for rank in result.ranks:
        assert [flow["bytes"] for flow in rank["flows"]] == [size * 3 // 4] * 2


def test_a_queue_pair_that_moves_to_another_port_loses_nothing() -> None:
    spec = CollectiveSpec("gpt", "dp0", NAMES[:4], bytes=1 << 20, iterations=8)
    routes = striped(spec)
    seen: list[set[str]] = []
    slow = dataclasses.replace(FAST, line_rate=2e7)

    def follow() -> dict[str, PieceWay]:
        return {piece.name: PieceWay(key[2], key[3], None) for key, pieces in routes.items() for piece in pieces}

    (result,) = run_collectives(
        HOSTS,
        spawn_here,
        [spec],
        routes,
        options=slow,
        ports_of=PORTS_OF,
        follow=follow,
        tally_seconds=0.1,
        on_tally=lambda tally: seen.append({qp["src"] for qp in tally["qps"]}),
    )
    assert result.checked, result.wrong
    assert result.bytes == 8 * 4 * (3 << 19)
    assert {len(addresses) for addresses in seen} == {1, 2}
    assert len(seen[-1]) == 1


def test_queue_pairs_begin_at_their_pace_and_follow_another_one() -> None:
    spec = CollectiveSpec("gpt", "dp0", NAMES[:2], bytes=1 << 20, iterations=2)
    # At this pace a packet takes three seconds, and everything a quarter of an hour.
    routes = {
        key: tuple(PortShare(port.udp_src, name=f"{key}", pace=1e4) for port in ports)
        for key, ports in numbered_routes([spec]).items()
    }
    sent_before: list[int] = []
    sent = [0]

    def follow() -> dict[str, PieceWay]:
        sent_before.append(sum(sent))
        return {port.name: PieceWay(key[2], key[3], None, 4e7) for key, (port,) in routes.items()}

    def on_tally(tally: dict[str, Any]) -> None:
        sent[:] = tally["bytes"]

    (result,) = run_collectives(
        HOSTS,
        spawn_here,
        [spec],
        routes,
        options=FAST,
        follow=follow,
        tally_seconds=0.1,
        on_tally=on_tally,
    )
    assert result.checked, result.wrong
    # Pacers let some packets go at once.
    assert sent_before[0] <= 2 * CATCH_UP_PACKETS * FAST.mtu
    assert {flow["pace_gbps"] for rank in result.ranks for flow in rank["flows"]} == {0.04}


@pytest.mark.parametrize("mode", QP_MODES)
def test_the_qps_of_a_connection_carry_equal_parts_in_both_modes(mode: QpMode) -> None:
    size, message = 1 << 20, 1 << 14
    spec = CollectiveSpec("gpt", "dp0", NAMES[:4], bytes=size, qp_mode=mode, message_bytes=message)
    routes = {
        key: tuple(PortShare(port.udp_src + qp, 0.25, paced=False) for port in ports for qp in range(4))
        for key, ports in numbered_routes([spec]).items()
    }
    (result,) = run_collectives(HOSTS, spawn_here, [spec], routes, options=FAST)
    assert result.checked, result.wrong
    for rank in result.ranks:
        assert [flow["bytes"] for flow in rank["flows"]] == [size * 3 // 8] * 4
        # A ring of four sends six chunks: of each a part over every QP, or its 16 messages by turns.
        assert {flow["messages"] for flow in rank["flows"]} == {6 if mode == "split" else 6 * 16 // 4}


def test_several_jobs_run_at_once_on_shared_hosts_for_several_iterations() -> None:
    specs = [
        CollectiveSpec("a", "dp0", NAMES[:4], bytes=1 << 18, iterations=3),
        CollectiveSpec("b", "dp0", NAMES[2:7], algorithm="direct", bytes=1 << 18, dtype="float32", iterations=2),
        CollectiveSpec("b", "ep0", NAMES, op="all_to_all", bytes=1 << 18, iterations=2),
        CollectiveSpec("c", "p2p", NAMES[:2], op="exchange", matrix=((0, 12345), (0, 0)), dtype="uint8"),
    ]
    results = run_collectives(HOSTS, spawn_here, specs, numbered_routes(specs), options=FAST)
    assert [(result.job, result.name) for result in results] == [(spec.job, spec.name) for spec in specs]
    for spec, result in zip(specs, results, strict=True):
        assert result.checked, result.wrong
        assert len(result.seconds) == spec.iterations
        assert result.bytes == spec.iterations * sum(spec.flows().values())


def test_each_stage_of_a_job_begins_at_the_time_that_follows_from_the_end_of_the_last_rank() -> None:
    grid = IterationGrid(period_seconds=0.5, shift_seconds=0.2, hold=True)
    cycles = [
        JobCycle("a", 4, ((0, 0.03), (2, 0.05))),
        JobCycle("b", 3, ((0, 0.02),), grid),
        JobCycle("c", 3, ((0, 0.0),), dataclasses.replace(grid, hold=False)),
    ]
    one_way = ((0, 12345), (0, 0))  # the receiver sends nothing by which the sender could wait for it
    specs = [
        CollectiveSpec("a", "dp0", NAMES[:3], bytes=1 << 16, iterations=4),
        CollectiveSpec("a", "dp1", NAMES[3:6], bytes=1 << 16, iterations=4),
        CollectiveSpec("a", "pp", NAMES[1:3], op="exchange", matrix=one_way, dtype="uint8", iterations=4, phase=2),
        CollectiveSpec("b", "dp0", NAMES[4:8], bytes=1 << 16, iterations=3),
        CollectiveSpec("c", "dp0", NAMES[:2], bytes=1 << 16, iterations=3),
    ]
    results = run_collectives(HOSTS, spawn_here, specs, numbered_routes(specs), options=FAST, cycles=cycles)
    assert all(result.checked for result in results)
    first, other, last, held, free = [result.spans for result in results]
    assert first[0][0] == other[0][0] == pytest.approx(0.03)
    for i in range(4):
        # The ranks of both rings wait for each other, and so do those that take part in one phase only.
        ended = max(first[i][1], other[i][1])
        assert last[i][0] == pytest.approx(ended + 0.05)
        assert i == 3 or first[i + 1][0] == other[i + 1][0] == pytest.approx(last[i][1] + 0.03)
    assert held[0][0] == pytest.approx(0.2 + 0.02)
    assert free[0][0] == pytest.approx(0.2)
    for i in range(2):
        assert held[i + 1][0] == pytest.approx(grid.after(held[i][1]) + 0.02)
        assert free[i + 1][0] == pytest.approx(free[i][1])


def test_collectives_overlap_with_computing_and_begin_when_others_have_ended_at_other_hosts() -> None:
    """``dp`` is sent while the job computes, ``ep`` after that, and ``last`` after ``dp``, of which h6 has no part."""
    cycle = JobCycle("a", 3, ((0, 0.5), (1, 0.1)))
    specs = [
        CollectiveSpec("a", "dp", NAMES[:4], bytes=1 << 16, iterations=3, overlaps=True),
        CollectiveSpec("a", "ep", NAMES[:2], bytes=1 << 16, iterations=3),
        CollectiveSpec("a", "last", NAMES[4:6], bytes=1 << 16, iterations=3, overlaps=True, after=("dp",)),
        CollectiveSpec("a", "next", NAMES[6:], bytes=1 << 16, iterations=3, phase=1),
    ]
    results = run_collectives(HOSTS, spawn_here, specs, numbered_routes(specs), options=FAST, cycles=[cycle])
    assert all(result.checked for result in results)
    dp, ep, last, following = [result.spans for result in results]
    begin = 0.0
    for i in range(3):
        assert dp[i][0] == pytest.approx(begin)
        assert ep[i][0] == pytest.approx(begin + 0.5)
        assert last[i][0] == pytest.approx(dp[i][1])
        ended = max(begin + 0.5, dp[i][1], ep[i][1], last[i][1])
        assert following[i][0] == pytest.approx(ended + 0.1)
        begin = following[i][1]


def test_an_agent_that_dies_ends_the_run_with_its_last_words_and_leaves_no_process() -> None:
    spec = CollectiveSpec("a", "c", NAMES[:3], bytes=1 << 16)
    started: list[subprocess.Popen[bytes]] = []

    def spawn(host, argv, *, stdin, stdout, stderr):  # type: ignore[no-untyped-def]
        broken = [argv[0], "-c", "raise SystemExit('the disk is on fire')"]
        process = spawn_here(host, broken if host == "h2" else argv, stdin=stdin, stdout=stdout, stderr=stderr)
        started.append(process)
        return process

    with pytest.raises(EmulationError, match=r"(?s)h2 ended early.*the disk is on fire"):
        run_collectives(HOSTS, spawn, [spec], numbered_routes([spec]), options=FAST)
    assert started
    assert all(process.poll() is not None for process in started)


def test_a_run_that_takes_too_long_says_what_each_rank_waited_for(tmp_path: Path) -> None:
    # 8 MB at 1 Mbit/s: over a minute.
    spec = CollectiveSpec("a", "slow", NAMES[:2], bytes=8 << 20)
    options = SenderOptions(line_rate=1e6)
    with pytest.raises(EmulationError, match=r"(?s)in time from h1, h2.*a/slow rank 0.*waits for.*chunk"):
        run_collectives(
            HOSTS, spawn_here, [spec], numbered_routes([spec]), options=options, timeout=5, log_dir=tmp_path
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent-h1.log", "agent-h2.log"]


def test_agents_with_a_given_start_time_need_no_parent(tmp_path: Path) -> None:
    spec = CollectiveSpec("a", "c", NAMES[:2], bytes=1 << 16)
    start_at = time.monotonic() + 2.0
    processes = []
    for host, config in agent_configs(HOSTS, [spec], numbered_routes([spec]), options=FAST).items():
        path = tmp_path / f"{host}.json"
        path.write_text(json.dumps({**to_document(config), "start_at": start_at, "linger": 2.0}))
        argv = [*ROCE, "agent", "--config", str(path)]
        processes.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
    for process in processes:
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
        report = json.loads(out)
        assert report["checked"]
        assert report["collectives"][0]["iterations"][0]["begin"] == start_at


def test_an_agent_whose_caller_goes_away_ends_too() -> None:
    spec = CollectiveSpec("a", "c", NAMES[:2], bytes=1 << 16)
    config = agent_configs(HOSTS, [spec], numbered_routes([spec]))["h1"]
    process = subprocess.Popen(
        [*ROCE, "agent", "--config", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _, err = process.communicate(json.dumps(to_document(config)).encode() + b"\n", timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert err.decode().count("\n") == 1


def test_a_server_serves_one_client_after_another_until_ctrl_c() -> None:
    with roce_server(f"{NET}.1") as server:
        for _ in range(2):
            argv = [
                *ROCE,
                "client",
                f"{NET}.1",
                "--bind",
                f"{NET}.2",
                "--bytes",
                "1M",
                "--format",
                "json",
                "--retries",
                str(PATIENT),
            ]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
            assert done.returncode == 0, done.stderr
            result = json.loads(done.stdout)
            assert result["bytes"] == 1 << 20
            assert result["packets"] == 256 + result["retransmissions"]
    assert server.returncode == 0
    reports = [json.loads(line) for line in server.output.splitlines()]  # type: ignore[attr-defined]
    assert [report["bytes"] for report in reports] == [1 << 20, 1 << 20]
    assert all(report["intact"] for report in reports)


def test_ctrl_c_ends_a_client_without_a_traceback_and_the_server_notices() -> None:
    with roce_server(f"{NET}.1", (), "--once") as server:
        argv = [*ROCE, "client", f"{NET}.1", "--bind", f"{NET}.2", "--seconds", "60", "--rate-mbps", "10"]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        wait_for_client(server)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 130
        assert err == ""
        server.wait(timeout=PATIENCE_SECONDS)
    assert "error" in json.loads(server.output)  # type: ignore[attr-defined]


def test_a_server_that_dies_ends_the_client_with_one_line() -> None:
    with roce_server(f"{NET}.1") as server:
        argv = [
            *[*ROCE, "client", f"{NET}.1", "--bind", f"{NET}.2", "--seconds", "60", "--rate-mbps", "10"],
            *["--retries", "1"],
        ]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        wait_for_client(server)
        server.kill()
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert err.count("\n") == 1
    assert "no answer" in err or "closed the connection" in err


@pytest.mark.parametrize(
    ("argv", "code", "word"),
    [
        (["client"], 2, "SERVER"),
        (["client", "127.0.0.1", "--bytes", "many"], 2, "--bytes"),
        (["client", "127.0.0.1", "--mtu", "1500"], 2, "mtu"),
        (["client", "127.0.0.1", "--udp-src", "50000", "--shares", "0.5"], 2, "shares"),
        (["client", f"{NET}.9"], 1, "no server"),
        (["server", "--bind", "203.0.113.1"], 2, "203.0.113.1"),
        (["server", "--bind", "0.0.0.0"], 2, "0.0.0.0"),
        (["agent", "--config", "/does/not/exist.json"], 2, "exist.json"),
        (["dance"], 2, "dance"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(argv: list[str], code: int, word: str) -> None:
    done = subprocess.run([*ROCE, *argv], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == code
    assert done.stderr.count("\n") == 1
    assert word in done.stderr


def test_a_peer_that_never_answers_fails_the_run_with_the_name_of_the_collective() -> None:
    spec = CollectiveSpec("a", "dp0", NAMES[:2], bytes=1 << 16)

    def spawn(host, argv, *, stdin, stdout, stderr):  # type: ignore[no-untyped-def]
        # Says that it is ready, and does nothing.
        deaf = [argv[0], "-c", 'import sys, time; print(\'{"event": "ready"}\', flush=True); sys.stdin.read()']
        return spawn_here(host, deaf if host == "h2" else argv, stdin=stdin, stdout=stdout, stderr=stderr)

    options = SenderOptions(line_rate=4e8, first_timeout=0.2, retries=1)
    with pytest.raises(EmulationError, match=r"(?s)h1 ended early.*no answer.*a/dp0 rank 0"):
        run_collectives(HOSTS, spawn, [spec], numbered_routes([spec]), options=options)
