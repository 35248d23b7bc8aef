"""The systemd unit of the agent, and the guide that installs it."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from agent.command import agent

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "etc" / "fairspine-agent.service"


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/fairspine/.venv/bin/fairspine-agent", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_and_the_guide_give_options_and_variables_that_exist() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    app = typer.Typer()
    app.command()(agent)
    parameters = typer.main.get_command(app).params
    options = {name for each in parameters for name in each.opts}
    start = shlex.split(parser["Service"]["ExecStart"])
    guide = (ROOT / "docs/how-to/agent.md").read_text()
    assert {word for word in start if word.startswith("--")} <= options
    assert set(re.findall(r"`(--[a-z-]+)", guide)) - {"--no-deps"} <= options
    variables = set(re.findall(r"^(FAIRSPINE_\w+)=", guide, re.MULTILINE))
    own = {name for each in parameters if isinstance(name := each.envvar, str)}
    own |= {name for each in parameters for name in re.findall(r"env var: (\w+)", getattr(each, "help", None) or "")}
    assert variables <= own | set(re.findall(r"\$\{(\w+)\}", parser["Service"]["ExecStart"]))
