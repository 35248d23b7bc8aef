"""``python -m emulation.lab``: its output when it is up, commands on its hosts, and its errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulation import isolate
from emulation.lab.__main__ import main
from tests.documented import ROOT
from tests.rig.waiting import READY_SECONDS

pytestmark = pytest.mark.switches


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    path = tmp_path / "fabric.yaml"
    path.write_text("clos: {spines: 2, leaves: 2, hosts_per_leaf: 1, uplink_gbps: 50}\n")
    return str(path)


def outside() -> dict[str, str]:
    """The environment of somebody who is not in a lab's namespace yet."""
    return {name: value for name, value in os.environ.items() if name != isolate.NETNS_VARIABLE}


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "emulation.lab", *args]


def ended(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), cwd=ROOT, env=outside(), capture_output=True, text=True, timeout=READY_SECONDS
    )


def test_the_command_says_where_logs_and_rules_are_and_runs_commands_on_hosts(
    runs: Path, fabric: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    argv = command("--fabric", fabric, "--out", str(out), "--mbps-per-gbps", "0.2")
    with subprocess.Popen(argv, cwd=ROOT, env=outside(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(5)]
            assert lines[0].startswith("4 switches and 2 hosts are up")
            assert str(out / "logs") in lines[1]
            assert {log.name for log in (out / "logs").iterdir()} == {"ovs-vswitchd.log", "ovsdb-server.log"}
            rules = lines[3].removeprefix("rules:").split()
            assert subprocess.run(rules, capture_output=True).returncode == 0
            address = ended("--on", "h2", "ip", "-o", "addr", "show", "dev", "h2-eth0")
            assert " inet 10.0.2.1/8 " in address.stdout, address.stderr
            rates = ended("--on", "h2", "tc", "class", "show", "dev", "h2-eth0")
            assert " rate 20Mbit " in rates.stdout
            assert ended("--on", "h1", "false").returncode == 1
            unknown = ended("--on", "h9", "true")
            assert (unknown.returncode, len(unknown.stderr.splitlines())) == (2, 1)
        finally:
            process.terminate()
        assert process.wait(READY_SECONDS) == 0
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--fabric", "FABRIC", "--mbps-per-gbps", "50"], "mbps_per_gbps"),
        (["--fabric", "FABRIC", "--mbps-per-gbps", "0"], "mbps_per_gbps"),
        (["--fabric", "FABRIC", "--controller", "localhost"], "--controller"),
        (["--fabric", "no-such-file"], "no-such-file"),
        (["--on", "h1"], "--on"),
        ([], "--fabric"),
    ],
)
def test_bad_input_is_one_line_before_anything_is_made(
    runs: Path, fabric: str, args: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([fabric if arg == "FABRIC" else arg for arg in args]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("lab: ")
    assert word in line
    assert list(runs.iterdir()) == []
