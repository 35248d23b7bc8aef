"""A command in private namespaces: it runs as outside, sees no other processes, and ends with its caller."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from emulation.processes import identity, is_alive
from emulation.relay import Relay, unix_listener
from tests.documented import ROOT
from tests.rig.waiting import READY_SECONDS, eventually

pytestmark = pytest.mark.switches


def isolated(*argv: str) -> list[str]:
    return [sys.executable, "-m", "emulation.isolate", *argv]


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(isolated(*argv), cwd=ROOT, capture_output=True, text=True, timeout=READY_SECONDS)


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["no-such-program"], 127),
    ],
)
def test_the_exit_status_is_that_of_the_command_as_in_shells(argv: list[str], status: int) -> None:
    assert run(*argv).returncode == status


def test_it_has_a_network_and_processes_of_its_own_and_a_loopback_that_works() -> None:
    seen = run(
        "sh",
        "-c",
        "readlink /proc/self/ns/net; readlink /proc/self/ns/pid; ip -o link; ls /proc; ping -c1 -W1 127.0.0.1",
    )
    net, pid, *rest = seen.stdout.splitlines()
    assert net != os.readlink("/proc/self/ns/net")
    assert pid != os.readlink("/proc/self/ns/pid")
    assert len([line for line in rest if "link/" in line]) == 1
    assert str(os.getpid()) not in rest
    assert seen.returncode == 0, seen.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_command_and_what_it_leaves_ends_with_it(number: signal.Signals) -> None:
    script = (
        f"trap 'exit 9' {number.name.removeprefix('SIG')}; setsid sleep 1000 & echo up; while :; do sleep 0.05; done"
    )
    with subprocess.Popen(isolated("sh", "-c", script), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        init = identity(int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()))
        assert init is not None
        process.send_signal(number)
        try:
            assert process.wait(READY_SECONDS) == 9
        finally:
            process.kill()
    # The first process of a namespace takes all others with it.
    eventually(lambda: not is_alive(init), "the namespace has ended")


def test_a_relay_carries_both_directions_whole_and_the_end_of_either_side(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Relay(unix_listener(tmp_path / "socket"), server.getsockname()[:2]),
        socket.socket(socket.AF_UNIX) as inner,
    ):
        inner.connect(str(tmp_path / "socket"))
        outer, _ = server.accept()
        data = os.urandom(3_000_000)
        with outer:
            for sender, receiver in ((inner, outer), (outer, inner)):
                thread = threading.Thread(target=sender.sendall, args=(data,))
                thread.start()
                assert receiver.makefile("rb").read(len(data)) == data
                thread.join()
        assert inner.recv(1) == b""


def test_a_relay_without_a_target_closes_connections_and_works_when_the_target_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()[:2]
    with Relay(unix_listener(tmp_path / "socket"), address):
        with socket.socket(socket.AF_UNIX) as early:
            early.connect(str(tmp_path / "socket"))
            assert early.recv(1) == b""
        with socket.create_server(address) as server, socket.socket(socket.AF_UNIX) as late:
            late.connect(str(tmp_path / "socket"))
            outer, _ = server.accept()
            with outer:
                outer.sendall(b"x")
                assert late.recv(1) == b"x"
