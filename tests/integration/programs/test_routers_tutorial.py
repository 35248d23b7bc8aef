"""The commands of the tutorial on routers work in their order, and do what the page says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.documented import ROOT, commands_of
from tests.rig.bench import Bench
from tests.rig.controller import Controller
from tests.rig.waiting import READY_SECONDS, eventually

pytestmark = pytest.mark.switches

PAGE = ROOT / "docs" / "tutorial" / "routers.md"
CONTROLLER, LAB = ".venv/bin/ryu-manager ", ".venv/bin/python -m emulation.lab --fabric "
ON_HOST = ".venv/bin/python -m emulation.lab --on "


@contextmanager
def lab_of(command: str, out: Path) -> Iterator[None]:
    argv = [sys.executable, *command.split()[1:], "--out", str(out)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("8 routers and 16 hosts are up")
            yield
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(READY_SECONDS) == 0


def run(command: str) -> str:
    """Return what a command prints, and what it says of errors if it fails."""
    argv = [word.strip('"') for word in command.split()]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=READY_SECONDS)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def all_confirm(controller: Controller) -> None:
    def confirmed() -> bool:
        rows = controller.get("/v1/hosts").body["hosts"]
        newest = controller.get("/v1/plan").body["computed"]["epoch"]
        return all(row["epoch"] == newest for row in rows)

    eventually(confirmed, "all agents hold the newest plan", shown=lambda: controller.get("/v1/hosts").body)


def test_the_commands_of_the_tutorial_on_routers_work_in_their_order(bench: Bench, runs: Path) -> None:
    first, start, lab, *commands = commands_of(PAGE)
    assert first == "make setup"
    assert start.startswith(CONTROLLER)
    assert lab.startswith(LAB)
    options = start.split()[1:]
    # In place of the store that the page names: the test leaves no state behind, and begins without any.
    store = options.index("--store")
    assert options[store + 1].startswith("sqlite:///out/")
    controller = bench.controller(*options[:store], *options[store + 2 :])
    with lab_of(lab, bench.out):
        said: dict[str, str] = {}
        for command in commands:
            if command.startswith("make "):
                continue
            if "hosts" in command or ON_HOST in command:
                all_confirm(controller)
            said[command] = run(command.replace("curl", "curl --fail --silent --show-error", 1))
        assert "16 hosts" in said[".venv/bin/fairspine hosts"]
        (flows,) = (text for command, text in said.items() if "nft list" in command)
        routes = controller.get("/v1/routes?host=h1").body["flows"]
        assert routes
        assert all(str(flow["dst_ip"]) in flows for flow in routes)
        assert controller.get("/v1/jobs").body["jobs"]
        assert controller.get("/v1/mode").body["mode"] == "planned"
    assert {folder.name.split("-")[0] for folder in runs.iterdir()} <= {str(os.getpid())}, (
        "the lab leaves nothing behind"
    )
