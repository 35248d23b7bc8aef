"""``fairspine top``, against answers that are laid out."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controller.cli.connection.client import READ_SECONDS, TIMEOUT_SECONDS, Client, NoAnswer
from controller.cli.live.top import look_at
from tests.unit.cli.fake_controller import Controller, serving
from tests.unit.cli.live.top_answers import LINKS, looks
from tests.unit.cli.running import Run

FAIRSPINE = str(Path(sys.executable).with_name("fairspine"))


def test_it_tells_the_expected_slowdown_and_its_bound_where_jobs_state_their_times(
    controller: Controller, run: Run
) -> None:
    row = {"name": "a", "speed": None, "min_speed": 0.5, "flows": 2, "bytes": 3, "active": True}
    times = {"compute_seconds": 0.1, "alone_seconds": 0.2, "iteration_seconds": 0.25, "slowdown": 1.25, "duty": 0.6}
    jobs = {"jobs": [row | {"times": times}], "times": {"slowdown": 1.25, "bound": 1.125, "gap": 1 / 9}}
    answers = looks()
    answers[2] = (200, jobs)
    controller.lay_out(*answers)
    out = run("top", "--url", controller.url)[1]
    assert "1.250 times as long as alone, at least 1.125" in out
    assert ["a", "-", "0.500", "250", "ms", "1.250", "60%", "2", "3", "B", "yes"] in [
        line.split() for line in out.splitlines()
    ]


def test_it_tells_what_tenants_get(controller: Controller, run: Run) -> None:
    row = {"name": "a", "speed": None, "min_speed": 0.5, "flows": 2, "bytes": 3, "active": True, "tenant": "lab"}
    counts = {"weight": 2.5, "jobs": 1, "flows": 2, "bytes": 3}
    jobs = {"jobs": [row], "times": None, "tenants": [{"name": "lab", **counts, "min_speed": 0.5, "slowdown": None}]}
    for command, told in (("top", ["--once"]), ("status", [])):
        answers = looks()
        answers[2] = (200, jobs)
        controller.lay_out(*answers)
        out = run(command, *told, "--url", controller.url)[1]
        assert ["lab", "2.5", "1", "2", "3", "B", "0.500"] in [line.split() for line in out.splitlines()]
    answers = looks()
    answers[2] = (200, jobs)
    controller.lay_out(*answers)
    assert json.loads(run("top", "--format", "json", "--url", controller.url)[1])["tenants"] == jobs["tenants"]


def test_it_prints_once_where_no_terminal_is_busiest_first_and_hosts_left_out(controller: Controller, run: Run) -> None:
    controller.lay_out(*looks(status="degraded", reasons=["spine3 is away", "\x1b[31mred"]))
    code, out, err = run("top", "--url", controller.url)
    assert (code, err) == (0, "")
    assert [path for _, path, _ in controller.asked] == [
        *("/v1/health", "/v1/links", "/v1/jobs", "/v1/plans?limit=1", "/v1/fabric")
    ]
    rows = [line.split() for line in out.splitlines() if "->" in line]
    assert rows == [
        ["leaf1->spine2", "90.0%", "90.00", "measured", "10.00", "3/0", "up"],
        ["leaf1->spine1", "50.0%", "50.00", "planned", "50.00", "-/-", "up"],
        ["leaf1->spine3", "0.0%", "0.00", "planned", "0.00", "-/-", "failed"],
    ]
    assert "degraded" in out
    assert "! spine3 is away" in out
    assert "\x1b" not in out
    assert "plan 2" in out
    assert "no counters yet" in out


@pytest.mark.parametrize("mode", ["ecmp", "frozen"])
def test_what_is_neither_measured_nor_planned_is_a_dash(controller: Controller, run: Run, mode: str) -> None:
    answers = looks(mode=mode, degraded_service=["mode is not planned"])
    answers[2][1]["jobs"][0]["speed"] = None
    controller.lay_out(*answers)
    _, out, _ = run("top", "--url", controller.url)
    rows = [line.split() for line in out.splitlines() if "->" in line]
    assert rows[0] == ["leaf1->spine2", "90.0%", "90.00", "measured", "10.00", "3/0", "up"]
    assert rows[1] == ["leaf1->spine1", "-", "-", "-", "50.00", "-/-", "up"]
    assert "~ mode is not planned" in out
    assert ["a", "-", "1.000", "1", "8", "B", "yes"] in [line.split() for line in out.splitlines()]


def test_links_are_cut_and_json_is_all_there_is(controller: Controller, run: Run) -> None:
    controller.lay_out(*looks())
    _, out, _ = run("top", "--once", "--links", "1", "--url", controller.url)
    assert out.count("->") == 1
    controller.lay_out(*looks())
    code, out, err = run("top", "--format", "json", "--url", controller.url)
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["links"] == LINKS
    assert document["plan"]["epoch"] == 2
    assert document["health"]["status"] == "ok"


def test_hosts_are_asked_for_again_with_another_plan_only(controller: Controller) -> None:
    client = Client(controller.url)
    controller.lay_out(*looks(2))
    first = look_at(client, None)
    controller.lay_out(*looks(2)[:-1])
    second = look_at(client, first)
    controller.lay_out(*looks(3))
    assert second.hosts == first.hosts == look_at(client, second).hosts == frozenset({"h1"})
    assert not controller.answers


@pytest.mark.parametrize("at", range(5))
def test_an_answer_that_is_not_ours_is_one_clear_error(controller: Controller, run: Run, at: int) -> None:
    answers = looks()
    answers[at] = (200, {"something": "else"})
    controller.lay_out(*answers)
    code, out, err = run("top", "--once", "--url", controller.url)
    assert (code, out) == (1, "")
    assert "is this a fairspine controller?" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [("--interval", "0"), ("--links", "0"), ("--interval", "x")])
def test_impossible_options_are_refused(run: Run, arguments: tuple[str, ...]) -> None:
    code, _, err = run("top", *arguments)
    assert code == 2
    assert arguments[0] in err


def test_on_a_terminal_it_looks_again_survives_a_lost_controller_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    controller = Controller()
    with serving(controller):
        controller.lay_out(*looks(2), *looks(7), (503, {"title": "busy", "detail": "too much at once"}))
        ours, theirs = pty.openpty()
        environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        command = [FAIRSPINE, "top", "--interval", "0.2", "--url", controller.url]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        seen = b""

        def until(text: bytes) -> None:
            nonlocal seen
            deadline = time.monotonic() + 60
            while text not in seen:
                assert time.monotonic() < deadline, seen.decode(errors="replace")
                if select.select([ours], [], [], 0.1)[0]:
                    seen += os.read(ours, 64 * 1024)

        try:
            until(b"plan 2 (")
            until(b"plan 7 (")
            # Nothing more is laid out: whatever the controller says now, or does not, the last look stays.
            until(b"trying again")
            process.send_signal(signal.SIGINT)
            while True:
                try:
                    seen += os.read(ours, 64 * 1024)
                except OSError:
                    break
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
            os.close(ours)
    assert b"Traceback" not in seen
    assert b"\x1b[?1049l" in seen, "the terminal is given back as it was"


def test_a_controller_that_was_never_there_is_one_clear_error(run: Run) -> None:
    code, _, err = run("top", "--url", "http://127.0.0.1:1")
    assert code == 1
    assert "is the controller running?" in err
    with pytest.raises(NoAnswer):
        Client("http://127.0.0.1:1").health()


def test_the_slowest_job_now_is_told_beside_the_planned_speed_and_what_that_leaves_out(
    controller: Controller, run: Run
) -> None:
    cut = {"job": "llama-b", "speed": 0.0, "unknown": None}
    hashed = {"job": None, "speed": None, "unknown": "switches hash flows"}
    none = {"job": None, "speed": None, "unknown": None}
    for slowest, code, text in (
        (cut, 1, "slowest job now: 0.000, llama-b (some flow cannot arrive)"),
        (hashed, 0, "slowest job now: unknown (switches hash flows)"),
        (none, 0, "slowest job now: no job uses the network"),
        ({"job": "a", "speed": 0.5, "unknown": None}, 0, "slowest job now: 0.500, a"),
    ):
        answers = looks(slowest_job=slowest)
        answers[3][1]["plans"][0] |= {"min_speed": 1.0, "gap": 0.0, "flows": 16, "unroutable": 8}
        controller.lay_out(*answers)
        ended, out, err = run("status", "--wide", "--url", controller.url)
        assert (ended, out.splitlines()[1]) == (code, text)
        assert out.splitlines()[2].startswith("plan 2 (job a): planned 1.000, best 1.000, gap 0.0%, ")
        assert out.splitlines()[2].endswith("; best and gap leave out 8 of 16 flows, which have no path")
        assert err == ("fairspine: job llama-b stands still: some of its flows cannot arrive\n" if code else "")


def test_a_read_of_a_silent_controller_gives_up_and_says_what_it_waited_for(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        code, out, err = run("status", "--url", url, "--timeout", "0.2")
        assert (code, out) == (1, "")
        assert err == (
            f"fairspine: {url}: no answer to GET /v1/health within 0.2 s (--timeout); "
            "the controller is stopped, or busy\n"
        )


def test_reads_have_a_shorter_limit_than_changes_and_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    monkeypatch.setattr(Client, "_read", lambda self, method, target, body, headers, timeout: limits.append(timeout))
    for client in (Client("http://127.0.0.1:1"), Client("http://127.0.0.1:1", timeout=7)):
        client.request("GET", "jobs")
        client.request("GET", "trace")
        client.request("PUT", "mode", body=b"{}")
    assert limits == [READ_SECONDS, TIMEOUT_SECONDS, TIMEOUT_SECONDS, 7, 7, 7]
