"""The README's commands are what works."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FENCES = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
BLOCKS = [block for language, block in FENCES if language in ("", "bash")]
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if re.match(r"(make|curl|mn) |\.venv/", line)]


def test_the_readme_shows_commands() -> None:
    assert {command.split()[0] for command in COMMANDS} >= {"make", "curl", "mn", ".venv/bin/fairspine"}


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make ")])
def test_every_make_target_of_the_readme_exists(command) -> None:
    done = subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


LOCAL = r"\.venv/bin/fairspine ((plan|compare|trace) --fabric|job |simulate )"
REMOTE = r"curl|\.venv/bin/fairspine (push|jobs|preview|drain|undrain|plan --live|history|mode|trace --differs)"


def test_every_fairspine_command_of_the_readme_is_tried() -> None:
    assert [c for c in COMMANDS if c.startswith(".venv/") and not re.match(f"{LOCAL}|{REMOTE}", c)] == []


@pytest.mark.parametrize("command", [c for c in COMMANDS if re.match(LOCAL, c)])
def test_every_command_of_the_readme_that_needs_no_controller_works(command) -> None:
    done = subprocess.run(command.split(), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert any(word in done.stdout for word in ("fair", "greedy", "gpt3", "FIM"))


@pytest.mark.switches
def test_the_commands_for_a_running_controller_work_in_their_order(bench) -> None:
    from controller.model.fabric_file import load_fabric

    lab = bench.lab(load_fabric(ROOT / "examples/clos-4x4x4.yaml"))
    conf, fabric = ROOT / "etc/fairspine.conf", ROOT / "examples/clos-4x4x4.yaml"
    controller = bench.controller("--config-file", str(conf), "--fabric", str(fabric), "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", lambda: controller.get("/healthz").body["status"] == "ok")
    commands = [c for c in COMMANDS if re.match(REMOTE, c)]
    assert len(commands) >= 12
    said = {}
    for command in commands:
        argv = [word.strip('"') for word in command.split()]
        if "trace" in argv:
            controller.wait_for("the plan is active", lambda: controller.get("/v1/plan").body["waits_for"] == [])
        if argv[0] == "curl":
            argv[1:1] = ["--fail", "--silent", "--show-error"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout, command
        said[command] = done.stdout
    assert [job["name"] for job in controller.get("/v1/jobs").body["jobs"]] == ["gpt3-a", "llama-b"]
    # The two jobs fill every uplink with a flow, so those over the spine have to go elsewhere.
    row = re.search(r"^ spine2 .*$", said[".venv/bin/fairspine drain spine2"], re.MULTILINE)
    assert row
    assert int(row[0].split()[-2]) >= 4, row[0]


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_every_file_that_the_readme_links_to_is_there(link) -> None:
    assert (ROOT / link).exists()
