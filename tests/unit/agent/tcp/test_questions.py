"""Questions of programs and of other agents: what they are answered, and what they are refused."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

from agent.errors import HostAgentError
from agent.ports.port_plan import PlannedConnections, PortPlan
from agent.ports.probe_task import ProbedPair, ProbeTask
from agent.tcp import peers
from agent.tcp.connection_ports import ConnectionPorts
from agent.tcp.path_prober import PathProber
from agent.tcp.peers import PeerServer, ask_peer
from agent.tcp.programs import ProgramServer
from agent.tcp.tcp_probes import PortPair
from tests.rig.real_controller import free_ports
from tests.rig.routers.hashing_routers import HashingNetwork

HERE, THERE = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")


class EveryPort(PathProber):
    """Finds that each candidate whose last digit is that of the path leads over it."""

    def right(
        self,
        task: ProbeTask,
        pair: ProbedPair,
        path: int,
        candidates: Iterator[PortPair],
        *,
        enough: int = 1,
        until: float,
    ) -> list[PortPair]:
        del task, pair, until
        leads = (each for each in candidates if max(each) % 10 == path)
        return [next(leads, PortPair(0, 0)) for _ in range(enough)]


def ports_of(path: int, peer: IPv4Address = THERE, pace: int | None = None) -> ConnectionPorts:
    """Choices for connections between this host and another one, over a path of this number."""
    task = HashingNetwork((4,), 1).task({peer: {}})
    ports = ConnectionPorts(EveryPort(None), lambda *_: None, Random(1))
    here = ProbeTask("h1", HERE, *(getattr(task, name) for name in list(task.__dataclass_fields__)[2:]))
    ports.follow(PortPlan(1, "0" * 16, here, (), {peer: PlannedConnections(path, False, pace)}, 1.0, 1.0))
    return ports


@contextmanager
def serving(serve: Callable[[], None], questions: int = 1) -> Iterator[None]:
    thread = Thread(target=lambda: [serve() for _ in range(questions)])
    thread.start()
    yield
    thread.join()


def asked(name: str, question: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as program:
        program.connect(name)
        program.send(question)
        return program.recv(200)


def test_programs_get_a_port_or_the_reason_why_not(tmp_path: Path) -> None:
    name = str(tmp_path / "run" / "tcp")
    server = ProgramServer(name, ports_of(3))
    questions = [b"1 0.0.0.0 127.0.0.2 5000", b"1 127.0.0.1 127.0.0.9 5000", b"2 0.0.0.0 127.0.0.2 5000"]
    questions += [b"1 0.0.0.0 127.0.0.2 0", b"1 0.0.0.0 127.0.0.2 x", b"1 0.0.0.0", b"\xff", b"x" * 500]
    with serving(server.serve, len(questions)):
        port, nothing, version, *wrong = (asked(name, each).decode() for each in questions)
    assert port.endswith("3 127.0.0.1")
    assert nothing == "0"
    assert version == "! the agent speaks version 1, and the library version 2"
    assert set(wrong) == {"! the agent does not understand the question"}
    with pytest.raises(HostAgentError, match="another agent has it"):
        ProgramServer(name, ports_of(3))
    server.listener.close()
    # One that was killed leaves its socket.
    ProgramServer(name, ports_of(3)).close()
    assert not Path(name).exists()


def test_programs_get_the_pace_of_their_payload(tmp_path: Path) -> None:
    ports = ports_of(3, pace=8_000_000_000)
    server = ProgramServer(str(tmp_path / "tcp"), ports)
    with serving(server.serve):
        port, source, pace = asked(str(tmp_path / "tcp"), b"1 0.0.0.0 127.0.0.2 5000").decode().split()
    assert (port[-1], source) == ("3", "127.0.0.1")
    # Nearly all of a link's time, with packets as large as those of the loopback interface.
    assert 990_000_000 < int(pace) < 1_000_000_000
    assert ports.paces() == {THERE: int(pace)}
    server.close()


def test_agents_answer_each_other_and_only_hosts_of_their_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    (number,) = free_ports(1)
    monkeypatch.setattr(peers, "PEER_PORT", number)
    server = PeerServer(ports_of(3))
    assert server.listen() is not None
    question: dict[str, Any] = {"listening": 5000, "ports": [50001, 50013, 50023]}
    with serving(server.serve):
        assert ask_peer(THERE, HERE, question, time.monotonic() + 60) == 50013
    for wrong in ({"ports": []}, {"ports": [0]}, {"ports": "x"}, {"listening": 0}, {"ports": [1] * 1000}):
        with serving(server.serve), pytest.raises(HostAgentError, match="does not say which ports lead back"):
            ask_peer(THERE, HERE, {**question, **wrong}, time.monotonic() + 60)
    with serving(server.serve), socket.create_connection((str(HERE), number), 60, ("127.0.0.9", 0)) as stranger:
        stranger.sendall(json.dumps(question).encode() + b"\n")
        # It is closed without an answer, whatever was sent.
        with suppress(ConnectionResetError):
            assert stranger.recv(10) == b""
    server.close()
    with pytest.raises(HostAgentError, match="refused"):
        ask_peer(THERE, HERE, question, time.monotonic() + 60)
