"""The launcher of agents: starts them, keeps the ranks of a job together, and collects their results."""

from __future__ import annotations

import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from emulation.roce.agent_config import AgentConfig, to_document
from emulation.roce.lines import LineBuffer, LineError, to_line

GOODBYE_SECONDS = 3.0
MEANWHILE_SECONDS = 0.5
_TAIL_LINES = 12


class EmulationError(RuntimeError):
    """The collectives did not finish; the message has the last log lines of the agents concerned."""


class Spawn(Protocol):
    """Start a program on a host, its three standard streams as given (as in ``subprocess.Popen``)."""

    def __call__(
        self, host: str, argv: Sequence[str], *, stdin: int, stdout: int, stderr: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Return the process, which has begun."""
        ...


@dataclass(slots=True)
class _Agent:
    host: str
    process: subprocess.Popen[bytes]
    log: Path
    lines: LineBuffer
    said: dict[str, dict[str, Any]]
    jobs: frozenset[str]
    collectives: frozenset[tuple[str, str]]


OnTally = Callable[[dict[str, Any]], None]
"""Takes what an agent says of its queue pairs; called in the thread that waits for the agents."""

OnEnded = Callable[[str, int, float], None]
"""Takes (job, stage, time of the monotonic clock) when a stage has ended at all hosts; called in the same thread."""


class Launcher:
    """The processes of the agents. Leaving the ``with`` block ends those that still run."""

    def __init__(
        self,
        folder: Path,
        on_tally: OnTally = lambda tally: None,
        on_ended: OnEnded = lambda job, stage, at: None,
    ) -> None:
        """Write the logs of agents to ``folder``."""
        self._folder, self._on_tally, self._on_ended = folder, on_tally, on_ended
        self._agents: list[_Agent] = []
        self._selector = selectors.DefaultSelector()
        self._ends: dict[tuple[str, int, str | None], dict[str, float]] = {}

    def __enter__(self) -> Launcher:
        """Return the launcher."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all agents."""
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
        """Start the agent of a host; ``spawn`` starts the process."""
        log = self._folder / f"agent-{host}.log"
        with log.open("wb") as stderr:
            process = spawn(host, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        parts = frozenset((part.collective.job, part.collective.name) for part in config.parts)
        agent = _Agent(host, process, log, LineBuffer(), {}, frozenset(cycle.job for cycle in config.cycles), parts)
        self._agents.append(agent)
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, agent)
        self._write(agent, to_document(config))

    def move(self, host: str, moves: Sequence[dict[str, Any]]) -> None:
        """Give queue pairs other ways: rows of ``qp``, ``src``, ``dst`` (addresses), ``udp_src``, ``pace`` and DSCP."""
        for agent in self._agents:
            if agent.host == host:
                self._write(agent, {"moves": list(moves)})

    def tell(self, order: dict[str, Any]) -> None:
        """Send an order to all agents."""
        for agent in self._agents:
            self._write(agent, order)

    def wait(
        self, event: str, deadline: float, meanwhile: Callable[[], None] | None = None
    ) -> dict[str, dict[str, Any]]:
        """Wait until all hosts have sent an event of this kind, and return the events by host.

        ``meanwhile`` is called every ``MEANWHILE_SECONDS``.

        Raises:
            EmulationError: an agent ended, or did not send it in time.
        """
        due = time.monotonic() + MEANWHILE_SECONDS
        while any(event not in agent.said for agent in self._agents):
            left = deadline - time.monotonic()
            if left <= 0:
                self._give_up(event)
            if meanwhile is not None:
                if time.monotonic() >= due:
                    meanwhile()
                    due = time.monotonic() + MEANWHILE_SECONDS
                left = min(left, max(0.0, due - time.monotonic()))
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
                if line.get("event") == "ended":
                    self._gather_end(agent, line["job"], line["stage"], line["collective"], line["at"])
                elif line.get("event") == "tally":
                    self._on_tally(line)
                else:
                    agent.said[str(line.get("event"))] = line
        except LineError as error:
            raise EmulationError(f"agent of {agent.host}: {error}") from error
        if not data:
            self._fail(agent)

    def _gather_end(self, agent: _Agent, job: str, stage: int, collective: str | None, at: float) -> None:
        """Tell all hosts of a job of an end when the last host has reported it: the barrier.

        It is that of a collective in a stage, at the hosts that have a part in it, or (``None``) that of the stage.
        """
        members = [each for each in self._agents if job in each.jobs]
        awaited = [each for each in members if collective is None or (job, collective) in each.collectives]
        ends = self._ends.setdefault((job, stage, collective), {})
        ends[agent.host] = at
        if len(ends) < len(awaited):
            return
        del self._ends[job, stage, collective]
        for each in members:
            self._write(each, {"job": job, "stage": stage, "collective": collective, "ended_at": max(ends.values())})
        if collective is None:
            self._on_ended(job, stage, max(ends.values()))

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
