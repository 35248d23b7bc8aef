"""Runs collectives on a set of hosts: an agent a host, a common start, one result a collective.

How a process gets onto a host is the caller's business: Mininet's ``popen``, ``ip netns exec``, or simply this machine
with an address of 127.0.0.0/8 for each host.
"""

from __future__ import annotations

import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol

from controller.model.errors import InputError
from controller.model.port_numbers import ROCE_PORT
from emulation.roce.agent_config import FIRST_QP, AgentConfig, PartConfig, PieceConfig, to_document
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.lines import LineBuffer, LineError, to_line
from emulation.roce.sender import SenderOptions

START_AFTER = 0.3
"""Seconds between the last agent's readiness and the common start: time for the order to reach all of them."""

GOODBYE_SECONDS = 3.0
_FIRST_FLOW_QP = max(FIRST_QP, 0x100)
_TAIL_LINES = 12


class EmulationError(RuntimeError):
    """The collectives did not finish; the message has the last log lines of the agents concerned."""


@dataclass(frozen=True, slots=True)
class PortShare:
    """A UDP source port of a flow, and its share if there are several; ``paced`` as for ``PieceConfig``."""

    udp_src: int
    share: float = 1.0
    paced: bool = True


FlowKey = tuple[str, str, str, str]
"""(job, collective, source host, destination host)."""

Routes = Mapping[FlowKey, Sequence[PortShare]]


class Spawn(Protocol):
    """Start a program on a host, its three standard streams as given (as in ``subprocess.Popen``)."""

    def __call__(
        self, host: str, argv: Sequence[str], *, stdin: int, stdout: int, stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]: ...


@dataclass(frozen=True, slots=True)
class CollectiveResult:
    """The measurements of a collective.

    Attributes:
        seconds: duration of each iteration, from its start (the first one: the common start) until the last rank had
            its complete result and the acknowledgements of all sent messages.
        bytes: payload of all ranks in all iterations, each byte counted once.
        checked: whether every rank had the correct result in every iteration; if not, ``wrong`` describes the error.
        ranks: reports of the ranks' agents, by rank (docs/explanation/roce.md).
    """

    job: str
    name: str
    seconds: tuple[float, ...]
    bytes: int
    retransmissions: int
    timeouts: int
    checked: bool
    wrong: tuple[str, ...]
    ranks: tuple[dict[str, Any], ...]


def agent_configs(
    hosts: Mapping[str, str],
    collectives: Sequence[CollectiveSpec],
    routes: Routes,
    *,
    options: SenderOptions | None = None,
    port: int = ROCE_PORT,
) -> dict[str, AgentConfig]:
    """Return the configuration of each host that has a rank.

    Queue pairs are numbered in the order of collectives and ranks.

    Args:
        hosts: IPv4 address by name.
        collectives: the collectives; ``ranks`` are names of hosts.
        routes: the UDP source port of every flow, or those of its pieces.
        options: options of every queue pair; ``None``: the defaults.
        port: UDP port of RoCE.

    Raises:
        InputError: a host is unknown, a collective occurs twice, a flow has no port, or two flows between two hosts
            have the same port.
    """
    parts: dict[str, list[PartConfig]] = {}
    labels: set[str] = set()
    ports: dict[tuple[str, str, int], str] = {}
    qp = _FIRST_FLOW_QP
    for i, spec in enumerate(collectives):
        where = f"collectives[{i}]"
        if spec.label in labels:
            raise InputError("this collective is listed twice", field=where, value=spec.label)
        labels.add(spec.label)
        for host in spec.ranks:
            if host not in hosts:
                raise InputError("no host has this name", field=f"{where}.ranks", value=host)
        addressed = replace(spec, ranks=tuple(hosts[host] for host in spec.ranks))
        sends: list[dict[int, tuple[PieceConfig, ...]]] = [{} for _ in spec.ranks]
        receives: list[dict[int, tuple[int, ...]]] = [{} for _ in spec.ranks]
        for source, destination in spec.flows():
            src, dst = spec.ranks[source], spec.ranks[destination]
            pieces = routes.get((spec.job, spec.name, src, dst), ())
            if not pieces:
                raise InputError("this flow has no UDP source port", field="routes", value=f"{spec.label} {src}->{dst}")
            configs: list[PieceConfig] = []
            for piece in pieces:
                other = ports.setdefault((src, dst, piece.udp_src), spec.label)
                if other != spec.label or piece.udp_src in (c.udp_src for c in configs):
                    reason = f"{other} and {spec.label} both use this port from {src} to {dst}"
                    raise InputError(reason, field="routes", value=piece.udp_src)
                configs.append(PieceConfig(qp, piece.udp_src, piece.share, piece.paced))
                qp += 1
            sends[source][destination] = tuple(configs)
            receives[destination][source] = tuple(c.qp for c in configs)
        for rank, host in enumerate(spec.ranks):
            parts.setdefault(host, []).append(PartConfig(addressed, rank, sends[rank], receives[rank]))
    return {
        host: AgentConfig(host, hosts[host], tuple(own), options or SenderOptions(), port)
        for host, own in parts.items()
    }


def run_collectives(
    hosts: Mapping[str, str],
    spawn: Spawn,
    collectives: Sequence[CollectiveSpec],
    routes: Routes,
    *,
    options: SenderOptions | None = None,
    port: int = ROCE_PORT,
    timeout: float = 120.0,
    python: str = sys.executable,
    log_dir: Path | None = None,
) -> list[CollectiveResult]:
    """Run the collectives at the same time and return their measurements, in their order.

    Args:
        hosts: IPv4 address by name.
        spawn: starts a process on a host.
        collectives: the collectives; ``ranks`` are names of hosts.
        routes: the UDP source port of every flow, or those of its pieces.
        options: options of every queue pair; ``line_rate`` is that of a host's link.
        port: UDP port of RoCE.
        timeout: time limit in seconds, from the first process to the last result.
        python: interpreter of the agents, which has this package.
        log_dir: folder of ``agent-HOST.log`` (standard error of the agents); None: a temporary folder.

    Raises:
        InputError: the collectives or routes are invalid; nothing was started.
        EmulationError: an agent failed, or the time limit was exceeded. All agents have ended.
    """
    configs = agent_configs(hosts, collectives, routes, options=options, port=port)
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryDirectory(prefix="fairspine-agents-") as temporary:
        folder = log_dir or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with _Agents(folder) as agents:
            for host, config in configs.items():
                agents.start(host, spawn, [python, "-m", "emulation.roce", "agent", "--config", "-"], config)
            agents.wait("ready", deadline)
            start_at = time.monotonic() + START_AFTER
            agents.tell({"start_at": start_at})
            reports = agents.wait("result", deadline)
            agents.dismiss(time.monotonic() + GOODBYE_SECONDS)
    return [_gather(spec, reports, start_at) for spec in collectives]


def _gather(spec: CollectiveSpec, reports: Mapping[str, dict[str, Any]], start_at: float) -> CollectiveResult:
    ranks = []
    for host in spec.ranks:
        rows = reports[host]["collectives"]
        ranks.append(next(row for row in rows if (row["job"], row["name"]) == (spec.job, spec.name)))
    seconds = []
    for i in range(spec.iterations):
        begin = start_at if i == 0 else min(row["iterations"][i]["begin"] for row in ranks)
        seconds.append(max(row["iterations"][i]["end"] for row in ranks) - begin)
    return CollectiveResult(
        job=spec.job,
        name=spec.name,
        seconds=tuple(seconds),
        bytes=sum(row["bytes_sent"] for row in ranks),
        retransmissions=sum(row["retransmissions"] for row in ranks),
        timeouts=sum(flow["timeouts"] for row in ranks for flow in row["flows"]),
        checked=all(row["checked"] for row in ranks),
        wrong=tuple(f"rank {row['rank']}: {wrong}" for row in ranks for wrong in row["wrong"]),
        ranks=tuple(ranks),
    )


@dataclass(slots=True)
class _Agent:
    host: str
    process: subprocess.Popen[bytes]
    log: Path
    lines: LineBuffer
    said: dict[str, dict[str, Any]]


class _Agents:
    """The processes of the agents. Leaving the ``with`` block ends those that still run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._agents: list[_Agent] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> _Agents:
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self._agents:
            if agent.process.poll() is None:
                agent.process.kill()
        for agent in self._agents:
            agent.process.wait()
            for pipe in (agent.process.stdin, agent.process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
        self._selector.close()

    def start(self, host: str, spawn: Spawn, argv: Sequence[str], config: AgentConfig) -> None:
        log = self._folder / f"agent-{host}.log"
        with log.open("wb") as stderr:
            process = spawn(host, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        agent = _Agent(host, process, log, LineBuffer(), {})
        self._agents.append(agent)
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, agent)
        self._write(agent, to_document(config))

    def tell(self, order: dict[str, Any]) -> None:
        for agent in self._agents:
            self._write(agent, order)

    def wait(self, event: str, deadline: float) -> dict[str, dict[str, Any]]:
        """Wait until all hosts have sent an event of this kind, and return the events by host."""
        while any(event not in agent.said for agent in self._agents):
            left = deadline - time.monotonic()
            if left <= 0:
                self._give_up(event)
            for key, _ in self._selector.select(left):
                self._read(key.data)
        return {agent.host: agent.said[event] for agent in self._agents}

    def dismiss(self, deadline: float) -> None:
        """Ask all agents to end, and wait for them (those that do not end are killed later)."""
        for agent in self._agents:
            assert agent.process.stdin is not None
            with suppress(BrokenPipeError):
                agent.process.stdin.close()
        for agent in self._agents:
            with suppress(subprocess.TimeoutExpired):
                agent.process.wait(max(0.0, deadline - time.monotonic()))

    def _write(self, agent: _Agent, value: dict[str, Any]) -> None:
        assert agent.process.stdin is not None
        try:
            agent.process.stdin.write(to_line(value))
            agent.process.stdin.flush()
        except BrokenPipeError:
            self._fail(agent)

    def _read(self, agent: _Agent) -> None:
        assert agent.process.stdout is not None
        data = agent.process.stdout.read1(64 * 1024)  # type: ignore[attr-defined]
        try:
            for line in agent.lines.feed(data):
                agent.said[str(line.get("event"))] = line
        except LineError as error:
            raise EmulationError(f"agent of {agent.host}: {error}") from error
        if not data:
            self._fail(agent)

    def _fail(self, agent: _Agent) -> None:
        with suppress(subprocess.TimeoutExpired):
            agent.process.wait(GOODBYE_SECONDS)
        raise EmulationError(f"agent of {agent.host} ended early (exit code {agent.process.poll()}):\n{_tail(agent)}")

    def _give_up(self, event: str) -> None:
        late = [agent for agent in self._agents if event not in agent.said]
        self.dismiss(time.monotonic() + GOODBYE_SECONDS)  # they say on the way out what they were waiting for
        names = ", ".join(agent.host for agent in late)
        tails = "\n".join(f"{agent.host}: {_tail(agent)}" for agent in late)
        raise EmulationError(f"no '{event}' in time from {names}:\n{tails}")


def _tail(agent: _Agent) -> str:
    lines = agent.log.read_text(errors="replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:]) or "(no output)"
