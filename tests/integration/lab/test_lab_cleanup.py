"""A lab leaves nothing: not after its end, a failure, Ctrl-C, nor (at the latest at the next start) ``kill -9``."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation.errors import LabError
from emulation.isolate import NETNS_VARIABLE
from emulation.lab import Lab
from emulation.processes import Identity, identity, is_alive, labelled
from emulation.runfile import run_folder, sweep_dead
from tests.documented import ROOT
from tests.rig.controller import Controller
from tests.rig.waiting import READY_SECONDS, eventually

# A run folder of the test's own: whoever starts a lab beside it removes what killed ones have left in the common one.
pytestmark = [pytest.mark.switches, pytest.mark.usefixtures("runs")]

MakeLab = Callable[..., Lab]

OWNER = """
import sys, time
from controller.model.files.clos import clos
from emulation.lab import Lab
with Lab(clos(1, 2, 1), out=sys.argv[1]) as lab:
    # What a test or a demo may leave: a server on a host that has left its parent.
    lab.run("h1", ["sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 &"])
    print(lab.ovs.folder.name, flush=True)
    while True:
        time.sleep(0.1)
"""


def interfaces() -> set[str]:
    text = subprocess.run(["ip", "-o", "link", "show"], capture_output=True, text=True, check=True).stdout
    return {line.split(":")[1].split("@")[0].strip() for line in text.splitlines()}


def namespaces() -> set[str]:
    """Network namespaces in which somebody is."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(os.readlink(entry / "ns" / "net"))
            except OSError:
                continue
    return found


def owner(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", OWNER, str(out)], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def ended(process: subprocess.Popen[str]) -> int:
    """Its exit status; it is not waited for forever."""
    try:
        return process.wait(READY_SECONDS)
    finally:
        process.kill()


def label_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def assert_nothing_left(label: str) -> None:
    assert label
    eventually(lambda: labelled(label) == [], "no process is left")
    assert not (run_folder() / label).exists()
    eventually(lambda: interfaces() == {"lo"}, "no interface is left", shown=interfaces)


def test_after_its_end_there_is_no_process_interface_namespace_or_file(tmp_path: Path) -> None:
    before = namespaces()
    with ExitStack() as still_open:
        with Lab(clos(2, 2, 1), out=tmp_path) as lab:
            label = lab.ovs.folder.name
            entries = [Path(f"/proc/{lab.host(host.name).pid}/ns/net") for host in lab.wiring.hosts]
            hosts = {os.readlink(entry) for entry in entries}
            # The kernel gives the number of a closed namespace to the next one, perhaps that of another test.
            for entry in entries:
                still_open.enter_context(entry.open())
            lab.spawn("server", ["sleep", "1000"])
            lab.spawn("server-on-h1", ["sleep", "1000"], host="h1")
            lab.run("h2", ["sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 &"])
            assert len(labelled(label)) >= 9
            assert "leaf1-eth1" in interfaces()
            assert len(hosts - before) == 2
        assert_nothing_left(label)
        assert hosts.isdisjoint(namespaces())
    lab.stop()


def test_a_failure_inside_takes_everything_down_and_goes_on_its_way(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Lab(clos(1, 1, 1), out=tmp_path) as lab:
        raise ZeroDivisionError
    assert_nothing_left(lab.ovs.folder.name)


def test_a_lab_that_does_not_come_up_shows_the_end_of_the_log_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "ovs-vswitchd"
    broken.write_text("#!/bin/sh\necho the switch has no memory left\nexit 5\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    lab = Lab(clos(1, 1, 1), out=tmp_path)
    with pytest.raises(LabError) as caught:
        lab.start()
    assert "ovs-vswitchd ended with status 5" in str(caught.value)
    assert str(caught.value).endswith("the switch has no memory left")
    assert_nothing_left(lab.ovs.folder.name)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_program_ends_its_lab(tmp_path: Path, number: signal.Signals) -> None:
    with owner(tmp_path) as process:
        label = label_of(process)
        process.send_signal(number)
        # Impatient people press Ctrl-C twice, and supervisors send one signal after the other.
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert ended(process) != 0
    assert_nothing_left(label)


def test_after_kill_9_the_next_start_removes_what_was_left_and_works(lab: MakeLab, tmp_path: Path) -> None:
    with owner(tmp_path / "killed") as process:
        label = label_of(process)
        process.kill()
    left = labelled(label)
    # The switches and the server on the host live on without their owner, and so do their interfaces.
    assert len(left) >= 3
    assert "leaf1-eth1" in interfaces()
    running = lab(clos(1, 2, 1))
    assert not any(map(is_alive, left))
    assert not (run_folder() / label).exists()
    assert running.ovs.connected() == {"leaf1": False, "leaf2": False, "spine1": False}


def test_a_lab_that_is_alive_is_not_swept(lab: MakeLab) -> None:
    running = lab(clos(1, 1, 1))
    alive = labelled(running.ovs.folder.name)
    assert sweep_dead() == []
    assert alive
    assert all(map(is_alive, alive))


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "emulation.lab", *args]


def started(tmp_path: Path) -> subprocess.Popen[str]:
    """``python -m emulation.lab`` as somebody outside of any lab's namespace types it."""
    fabric = clos(1, 2, 1)
    # Hosts are looked for on the whole machine, where other labs may have an h1.
    hosts = tuple(dataclasses.replace(host, name=f"{host.name}-{os.getpid()}") for host in fabric.hosts)
    file = tmp_path / "fabric.yaml"
    file.write_text(yaml.safe_dump(fabric_document(dataclasses.replace(fabric, hosts=hosts))))
    return subprocess.Popen(
        command("--fabric", str(file), "--out", str(tmp_path / "out")),
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != NETNS_VARIABLE},
        start_new_session=True,
    )


def family_of(pid: int) -> list[Identity]:
    """A process and all that descend from it."""
    me = identity(pid)
    found = [] if me is None else [me]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += family_of(int(child))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_command_ends_with_all_its_switches_for_any_cause(tmp_path: Path, number: signal.Signals) -> None:
    before = interfaces()
    with started(tmp_path) as process:
        assert process.stdout is not None
        assert "3 switches and 2 hosts are up" in process.stdout.readline()
        assert interfaces() == before
        family = family_of(process.pid)
        process.send_signal(number)
        status = ended(process)
    # Its own two processes, two hosts, three switches, and the two daemons of Open vSwitch.
    assert len(family) >= 9
    eventually(lambda: not any(map(is_alive, family)), "all its processes are gone")
    assert status == (-signal.SIGKILL if number is signal.SIGKILL else 0)
    sweep_dead()
    assert list(run_folder().glob(f"{process.pid}-*")) == []


def test_the_commands_switches_reach_a_controller_outside_and_its_hosts_run_commands(
    runs: Path, tmp_path: Path, controller: Callable[..., Controller]
) -> None:
    with started(tmp_path) as process:
        try:
            assert process.stdout is not None
            assert "are up" in process.stdout.readline()
            controller("--fabric", str(tmp_path / "fabric.yaml"), "controller.app")
            ping = command("--on", f"h1-{os.getpid()}", "ping", "-c1", "-W1", "10.0.2.1")
            eventually(lambda: subprocess.run(ping, cwd=ROOT).returncode == 0, "one host reaches the other")
        finally:
            process.terminate()
        assert ended(process) == 0
