"""``python -m emulation.lab``: its output when it is up, commands on its hosts, and its errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation import isolate
from emulation.lab.__main__ import main
from tests.documented import ROOT
from tests.rig.waiting import READY_SECONDS, eventually
from tests.unit.strategies import with_routers

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


def test_the_command_brings_up_routers_and_runs_commands_on_them(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(with_routers(clos(1, 2, 1)))))
    with lab_of(file, tmp_path / "out") as (process, name):
        routes = ended("--lab", name, "--on", "spine1", "ip", "-6", "route")
        assert "seg6local action End" in routes.stdout, routes.stderr
        ping = ended("--lab", name, "--on", "h1", "ping", "-c", "1", "-W", "5", "10.0.2.1")
        assert ping.returncode == 0, ping.stdout
    assert process.returncode == 0
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--fabric", "FABRIC", "--mbps-per-gbps", "50"], "mbps_per_gbps"),
        (["--fabric", "FABRIC", "--mbps-per-gbps", "0"], "mbps_per_gbps"),
        (["--fabric", "FABRIC", "--controller", "localhost"], "--controller"),
        (["--fabric", "FABRIC", "--agents"], "--agents"),
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


@contextmanager
def lab_of(fabric: Path, out: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A lab that is up, and its name."""
    argv = command("--fabric", str(fabric), "--out", str(out))
    with subprocess.Popen(argv, cwd=ROOT, env=outside(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(5)]
            yield process, said[2].split("--lab ")[1].split()[0]
        finally:
            process.terminate()
            process.wait(READY_SECONDS)


def test_of_two_labs_on_one_machine_each_is_reached_by_its_name(runs: Path, tmp_path: Path) -> None:
    files = []
    for name, leaves in (("first", 2), ("second", 3)):
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(f"clos: {{spines: 2, leaves: {leaves}, hosts_per_leaf: 1, uplink_gbps: 50}}\n")
    address = ("ip", "-o", "addr", "show", "dev")
    with (
        lab_of(files[0], tmp_path / "first") as (first, one),
        lab_of(files[1], tmp_path / "second") as (second, other),
    ):
        assert one != other
        # Both have an h1: each name leads to the lab that has it, and none is guessed.
        unnamed = ended("--on", "h1", "true")
        assert unnamed.returncode == 2
        (line,) = unnamed.stderr.splitlines()
        assert "choose one by --lab" in line
        assert one in line
        assert other in line
        spaces = {ended("--lab", name, "--on", "h1", "readlink", "/proc/self/ns/net").stdout for name in (one, other)}
        assert len(spaces) == 2
        # Only the second has an h3, so it needs no name.
        assert " inet 10.0.3.1/8 " in ended("--on", "h3", *address, "h3-eth0").stdout
        absent = ended("--lab", one, "--on", "h3", "true")
        assert (absent.returncode, absent.stderr.count("\n")) == (2, 1)
        assert f"lab {one} has no host of this name" in absent.stderr
        wrong = ended("--lab", "no-such-lab", "--on", "h1", "true")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
        assert "no-such-lab" in wrong.stderr
        # Ctrl-C ends a command on a host, and no lab.
        sleeping = [*command("--lab", one, "--on", "h1", "sh", "-c", "echo ready; exec sleep 1000")]
        with subprocess.Popen(sleeping, cwd=ROOT, env=outside(), stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            child.send_signal(signal.SIGINT)
            assert child.wait(READY_SECONDS) == -signal.SIGINT
        assert ended("--lab", one, "--on", "h1", "true").returncode == 0
        # Ctrl-C ends one lab, and the other one goes on; then its hosts need no name.
        first.send_signal(signal.SIGINT)
        assert first.wait(READY_SECONDS) == 0
        gone = ended("--lab", one, "--on", "h1", "true")
        assert (gone.returncode, gone.stderr.count("\n")) == (2, 1)
        assert ended("--on", "h1", "ping", "-c", "1", "-W", "1", "127.0.0.1").returncode == 0
        assert ended("--lab", other, "--on", "h1", "readlink", "/proc/self/ns/net").stdout in spaces
        # A lab that was killed leaves a record; it is no lab any more.
        second.kill()
        second.wait(READY_SECONDS)
        eventually(lambda: ended("--on", "h1", "true").returncode == 2, "no lab is there")
