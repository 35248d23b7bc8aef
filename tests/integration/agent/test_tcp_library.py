"""libfairspine-tcp in programs of many threads and processes, compiled with sanitizers, with agents that err."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.documented import ROOT

pytestmark = pytest.mark.switches

SANITIZERS = {"address": ("address", "undefined"), "thread": ("thread",)}
OWN, LISTENING = "10.9.0.1", 29500
IN_NAMESPACE = f'ip link set lo up && ip address add {OWN}/32 dev lo && exec "$@"'
FIRST = 20000
"""The system gives none of these: its own begin at 32768."""
THREADS, FORKS, TIMES = 6, 3, 10
PACE, UNLIMITED = 125_000_000, 2**64 - 1
CONNECTIONS = (THREADS + FORKS) * TIMES

NONSENSE = (
    b"0",
    b"!",
    b"! " + b"x" * 5000,
    b"0 10.9.0.1",
    b"-1 10.9.0.1",
    b"65536 10.9.0.1",
    b"99999999999999999999 10.9.0.1",
    b"45000",
    b"45000 192.0.2.1 -5",
    b"45000 10.9.0.300",
    b"45000 " + b"1" * 300,
    b"45000 192.0.2.1",
    b"%s%n %s%n",
    b"\xff\0\xff",
    b"\n",
)


@contextmanager
def agent(path: Path, answers: Iterator[bytes]) -> Iterator[list[str]]:
    """Answer each question with the next one of some answers; yield the list of questions."""
    asked: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(128)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                # On a busy machine a program may have stopped to wait for the answer.
                with connection, suppress(ConnectionError):
                    asked.append(connection.recv(256).decode())
                    connection.send(next(answers))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(scope="module", params=sorted(SANITIZERS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tcp") / "program"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=undefined"]
    flags += [f"-fsanitize={each}" for each in SANITIZERS[request.param]]
    flags += [f"-I{ROOT / 'notices'}", '-DLIBRARY_NAME="fairspine-tcp"', '-DLOG_VARIABLE="FAIRSPINE_TCP_LOG"']
    sources = [str(ROOT / each) for each in ("tcp/connect.c", "notices/notices.c", "tests/rig/tcp/program.c")]
    subprocess.run(["gcc", *flags, *sources, "-o", str(made), "-ldl", "-pthread"], check=True)
    return made


def connections(program: Path, at: str) -> tuple[list[tuple[str, int, int]], str]:
    """Run the program; return how each of its connections was made, its port and its pace, and what was said."""
    command = ["unshare", "--net", "sh", "-ec", IN_NAMESPACE, "sh", str(program), OWN, str(LISTENING)]
    command += [str(number) for number in (THREADS, FORKS, TIMES)]
    # To a child, the threads of its parent have never ended.
    env = {**os.environ, "FAIRSPINE_TCP_SOCKET": at, "TSAN_OPTIONS": "report_thread_leaks=0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=env, errors="replace")
    assert done.returncode == 0, done.stderr
    assert "Sanitizer" not in done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) == CONNECTIONS
    return [(how, int(port), int(pace)) for how, port, pace in rows], done.stderr


def test_each_connection_of_threads_and_children_has_a_port_of_the_agent(program: Path, tmp_path: Path) -> None:
    # Some ports are given twice: whoever comes second asks for another one, and nobody does so four times.
    ports = itertools.chain([FIRST, FIRST], [FIRST + 1] * 2, [FIRST + 2] * 2, itertools.count(FIRST + 3))
    given = (f"{port} {OWN} {PACE}".encode() for port in ports)
    with agent(tmp_path / "agent", given) as asked:
        paced, said = connections(program, str(tmp_path / "agent"))
    rows = [(how, port) for how, port, _ in paced]
    # A port that a program knows stays.
    chosen = [port for how, port in rows if how != "asked"]
    assert Counter(how for how, _ in rows) == dict.fromkeys(
        ("plain", "mapped", "bound", "mapped-bound", "asked"), CONNECTIONS // 5
    )
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) == set(range(FIRST, FIRST + len(chosen)))
    assert len(asked) == len(chosen) + 3
    assert not {port for how, port in rows if how == "asked"} & set(chosen)
    # IPv6 sockets ask with IPv4 addresses.
    assert set(asked) == {f"1 {own} {OWN} {LISTENING}" for own in ("0.0.0.0", OWN)}
    assert "connections get ports of the plan" in said
    assert {(how == "asked", pace) for how, _, pace in paced} == {(True, UNLIMITED), (False, PACE)}


@pytest.mark.parametrize("answers", [NONSENSE, (b"",)], ids=["nonsense", "nothing"])
def test_programs_connect_whatever_the_agent_answers(program: Path, tmp_path: Path, answers: tuple[bytes, ...]) -> None:
    with agent(tmp_path / "agent", itertools.cycle(answers)) as asked:
        rows, _ = connections(program, str(tmp_path / "agent"))
    assert asked
    assert all(port for _, port, _ in rows)


def test_programs_connect_where_the_name_of_the_agent_is_too_long(program: Path) -> None:
    _, said = connections(program, "/" + "x" * 200)
    assert "FAIRSPINE_TCP_SOCKET is too long" in said
