"""The commands of README and the tutorials work, in their order, and print what the pages show."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented import ROOT, commands_of, fences_of, outputs_of
from tests.rig.bench import Bench
from tests.rig.waiting import READY_SECONDS

README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs" / "tutorial").glob("*.md")), ROOT / "docs" / "how-to" / "evaluation.md")
NETWORK = ROOT / "docs" / "tutorial" / "network.md"

INSTALL = ("python3 -m venv .venv", ".venv/bin/pip install .")
"""``tests/package`` runs these in a copy of the project."""

MININET = "mn --custom"
"""``test_mn_line.py`` runs this one."""

IN_ORDER = {ROOT / "docs" / "tutorial" / "routers.md"}
"""``test_routers_tutorial.py`` runs all commands of this page."""

LOCAL = r"\.venv/bin/fairspine ((plan|compare|trace) --fabric|job |simulate )"
REMOTE = r"curl|\.venv/bin/fairspine (push|jobs|preview|drain|undrain|plan --live|history|mode|trace --differs)"

ON_PACKETS = r"\.venv/bin/fairspine referee "

TRAINING = r"\.venv/bin/fairspine emulate-training "
"""``test_training.py`` runs these, in their short form."""

COMMANDS = [(page, command) for page in PAGES if page not in IN_ORDER for command in commands_of(page)]
UNIQUE = list(dict.fromkeys(command for _, command in COMMANDS))


@functools.cache
def printed(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that always prints the same, once."""
    return run(command)


def run(command: str, timeout: float = 800) -> subprocess.CompletedProcess[str]:
    argv = [word.strip('"') for word in command.split()]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout)


def trimmed(output: str) -> list[str]:
    """Return the lines that are not empty, without measured times and with single blanks."""
    lines = [
        re.sub(r"\d+(\.\d+)? (us|ms|s)$|(?<=placed in )\S+ (us|ms|s)", "TIME", line.strip())
        for line in output.splitlines()
    ]
    return [re.sub(r"[ ─]+", " ", line) for line in lines if line]


def test_the_readme_is_short_and_shows_how_to_begin() -> None:
    assert len(README.read_text().splitlines()) < 150
    assert {*INSTALL, "make demo"} <= set(commands_of(README))


def test_every_documented_command_is_tried() -> None:
    tried = rf"{LOCAL}|{ON_PACKETS}|{TRAINING}|{REMOTE}|make |{MININET}"
    assert [c for c in UNIQUE if c not in INSTALL and not re.match(tried, c)] == []


@pytest.mark.parametrize("command", [c for c in UNIQUE if c.startswith("make ")])
def test_every_documented_make_target_exists(command: str) -> None:
    done = run(f"{command} --dry-run")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [c for c in UNIQUE if re.match(LOCAL, c)])
def test_every_documented_command_that_needs_no_controller_works(command: str) -> None:
    done = printed(command)
    assert done.returncode == 0, done.stderr
    assert any(word in done.stdout for word in ("fair", "greedy", "gpt3", "FIM"))


@pytest.mark.parametrize("command", [c for c in UNIQUE if re.match(ON_PACKETS, c)])
def test_every_documented_comparison_on_packets_works_in_its_quick_form(command: str, tmp_path: Path) -> None:
    done = run(f"{command} --quick --out {tmp_path}")
    assert done.returncode == 0 or "differ from the fluid model" in done.stderr
    assert "best spraying" in done.stdout
    assert (tmp_path / "referee.html").is_file()


OUTPUTS = [pair for page in PAGES for pair in outputs_of(page)]


@pytest.mark.parametrize(("command", "shown"), OUTPUTS, ids=[command for command, _ in OUTPUTS])
def test_the_output_that_a_page_shows_is_what_the_command_prints(command: str, shown: str) -> None:
    assert trimmed(printed(command).stdout) == trimmed(shown)


@pytest.mark.parametrize(
    "script", [block for page in PAGES for language, block in fences_of(page) if language == "python"]
)
def test_every_python_example_works(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "fair 1.0 0.0" in done.stdout


@pytest.mark.switches
def test_the_commands_for_a_running_controller_work_in_their_order(bench: Bench) -> None:
    from controller.model.files.fabric_file import load_fabric

    lab = bench.lab(load_fabric(ROOT / "examples/clos-4x4x4.yaml"))
    conf, fabric = ROOT / "etc/fairspine.conf", ROOT / "examples/clos-4x4x4.yaml"
    controller = bench.controller("--config-file", str(conf), "--fabric", str(fabric), "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    commands = [c for c in commands_of(NETWORK) if re.match(REMOTE, c)]
    assert len(commands) >= 12
    said = {}
    for command in commands:
        if "trace" in command:
            controller.wait_for("the plan is active", lambda: controller.get("/v1/plan").body["waits_for"] == [])
        if command.startswith("curl"):
            command = command.replace("curl", "curl --fail --silent --show-error", 1)
        done = run(command, timeout=READY_SECONDS)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout, command
        said[command] = done.stdout
    assert [job["name"] for job in controller.get("/v1/jobs").body["jobs"]] == ["gpt3-a", "llama-b"]
    # The two jobs fill every uplink with a flow, so the flows over the drained spine move.
    row = re.search(r"^ spine2 .*$", said[".venv/bin/fairspine drain spine2"], re.MULTILINE)
    assert row
    assert int(row[0].split()[-2]) >= 4, row[0]


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README.read_text()))))
def test_every_file_that_the_readme_links_to_is_there(link: str) -> None:
    assert (ROOT / link).exists()
