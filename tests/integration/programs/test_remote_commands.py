"""The commands that are clients of a controller, against a real one: what an operator does in a week."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.rest import schemas
from tests.documented import ROOT
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.programs import FAIRSPINE
from tests.rig.real_controller import free_ports
from tests.rig.waiting import READY_SECONDS, eventually

GPT3, LLAMA = (str(ROOT / "examples" / name) for name in ("gpt3-a.json", "llama-b.json"))

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def served(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Controller:
    openflow, port = free_ports(2)
    monkeypatch.setenv("FAIRSPINE_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    options = ["--ofp-tcp-listen-port", str(openflow), "--wsapi-port", str(port)]
    fabric = str(ROOT / "examples" / "clos-4x4x4.yaml")
    made = bench.controller(*options, "--fabric", fabric, "controller.app", http_port=port)
    made.wait_for("it has a plan", lambda: made.get("/v1/plan").status == 200)
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return end.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture
def told(run: Run) -> Callable[..., Any]:
    """The JSON that a command prints, which must be all it says."""

    def call(*arguments: str) -> Any:
        code, out, err = run(*arguments, "--format", "json")
        assert (code, err) == (0, ""), err
        return json.loads(out)

    return call


USER = pwd.getpwuid(os.geteuid()).pw_name
"""The controller runs on this machine, without tokens."""


def paths(document: dict[str, Any]) -> dict[str, Any]:
    return {flow["id"]: flow["paths"] for flow in document["flows"]}


def test_a_week_of_an_operator(served: Controller, run: Run, told: Callable[..., Any]) -> None:
    told("push", GPT3)
    before = told("plan", "--live")
    tried = told("preview", "--put", LLAMA, "--drain", "spine2")
    schemas.PreviewDocument.model_validate(tried)
    assert {row["job"] for row in tried["jobs"]} == {"gpt3-a", "llama-b"}
    assert told("plan", "--live") == before, "a preview changes nothing"

    told("push", LLAMA)
    full = told("plan", "--live")
    assert full["min_speed"] == pytest.approx(1)
    (spine,) = told("drain", "spine2")["links"]
    schemas.DrainDocument.model_validate({name: spine[name] for name in schemas.DrainDocument.model_fields})
    drained = told("plan", "--live")
    # What was promised is what came.
    assert drained["min_speed"] == pytest.approx(tried["after"]["min_speed"])
    used = {link for flow in drained["flows"] for path in flow["paths"] for link in path["links"]}
    assert not any("spine2" in link for link in used)
    assert "not active on every switch yet" in run("plan", "--live", "--wide")[1]

    code, out, err = run("drain", "spine1", "spine3", "spine4", "--format", "json")
    assert (code, err.startswith("fairspine: not possible: ")) == (6, True)
    rest = json.loads(out)["links"]
    assert [len(row["still_used"]) for row in rest] == [4, 4, 4]
    assert "still in use because no other path connects two leaves: leaf1-spine1" in run("drain", "spine1")[1]
    assert run("drain", "spine5")[0] == 1
    told("undrain", "spine1", "spine2", "spine3", "spine4")
    assert told("plan", "--live")["min_speed"] == pytest.approx(1)

    assert told("mode", "ecmp")["by"] == USER
    assert told("mode")["mode"] == told("plan", "--live")["mode"] == "ecmp"
    told("mode", "planned")

    page = told("history", "--limit", "500")
    schemas.PlanHistory.model_validate(page)
    plans = page["plans"]
    assert [plan["epoch"] for plan in plans] == sorted((plan["epoch"] for plan in plans), reverse=True)
    epoch = next(plan["epoch"] for plan in plans if plan["cause"] == "job llama-b pushed")
    assert told("history", "--limit", "1", "--before", str(epoch + 1))["plans"][0]["epoch"] == epoch
    kept = told("history", "show", str(epoch))
    schemas.PlanRecord.model_validate(kept)
    rolled = told("history", "rollback", str(epoch))
    assert (rolled["rollback_of"], rolled["by"]) == (epoch, USER)
    assert paths(told("plan", "--live")) == paths(full)
    assert run("history", "show", "999999")[0] == 1
    assert run("history", "rollback", "999999")[0] == 1
    for command in (["history"], ["history", "show", str(epoch)], ["mode"], ["preview"], ["plan", "--live"]):
        assert run(*command)[0] == 0


@pytest.fixture
def following(served: Controller, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """``fairspine events`` that is listening, what it prints, and what it says on standard error."""
    out, err = tmp_path / "events", tmp_path / "said"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = subprocess.Popen(
            # Whoever runs the tests in the background has Ctrl-C switched off, and that is inherited.
            ["env", "--default-signal=INT", FAIRSPINE, "events", "--after", "begin", "--format", "json"],
            stdout=stdout,
            stderr=stderr,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield process, out, err
    finally:
        process.kill()
        process.wait()


def test_events_go_on_over_a_restart_and_end_with_ctrl_c(
    served: Controller, following: tuple[subprocess.Popen[bytes], Path, Path], told: Callable[..., Any]
) -> None:
    process, out, err = following

    def seen() -> list[dict[str, Any]]:
        lines = out.read_text().splitlines()
        return [schemas.EventDocument.model_validate_json(line).model_dump() for line in lines]

    told("push", GPT3)
    eventually(lambda: {"job", "plan"} <= {event["kind"] for event in seen()}, "the job and its plan are told")
    assert served.stop() == 0
    eventually(lambda: "trying again" in err.read_text(), "it is told that the controller is away")
    before = len(seen())
    served.start()
    eventually(lambda: "answers again" in err.read_text(), "it is told that the controller is back")
    assert [job["name"] for job in told("jobs")["jobs"]] == ["gpt3-a"]
    told("drain", "spine2")
    eventually(lambda: "link" in {event["kind"] for event in seen()}, "the drain is told")
    assert seen()[before]["kind"] == "reset"
    ids = [event["id"] for event in seen() if event["kind"] != "reset"]
    assert len(ids) == len(set(ids))
    process.send_signal(signal.SIGINT)
    assert process.wait(READY_SECONDS) == 0
    assert len(err.read_text().splitlines()) == 2


def test_the_running_controller_is_analysed_as_files_are_and_several_jobs_are_deleted(
    served: Controller, run: Run, told: Callable[..., Any]
) -> None:
    for file in (GPT3, LLAMA):
        assert run("push", file)[0] == 0
    files = ("--fabric", str(ROOT / "examples" / "clos-4x4x4.yaml"), "--job", GPT3, "--job", LLAMA)
    live, offline = told("survive", "--live", "--kind", "spine"), told("survive", *files, "--kind", "spine")
    # Jobs that come one after the other may be planned over other spines, so another one may be the worst.
    for analysis in (live, offline):
        assert sorted(row["names"] for row in analysis["failures"]) == [[f"spine{n}"] for n in range(1, 5)]
    assert live["jobs"] == offline["jobs"] == ["gpt3-a", "llama-b"]
    assert live["before"]["min_speed"] == 1.0
    assert all(0 < row["min_speed"] < 1 for row in live["failures"])
    compared = run("compare", "--live", "--policies", "ecmp,fair")
    assert (compared[0], compared[2]) == (0, "")
    assert {line.split()[0] for line in compared[1].splitlines() if line.strip()} >= {"ecmp", "fair"}
    # One that is not there: none is deleted.
    code, _, err = run("jobs", "delete", "gpt3-a", "no-such-job")
    assert (code, err.count("\n")) == (1, 1)
    assert {row["name"] for row in told("jobs")["jobs"]} == {"gpt3-a", "llama-b"}
    assert run("jobs", "delete", "gpt3-a", "llama-b")[0] == 0
    assert told("jobs")["jobs"] == []
