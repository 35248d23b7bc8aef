"""A host's agent: its NIC, and its part in every job that has a rank there, in one process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from controller.model.errors import InputError
from emulation.roce import agent_config
from emulation.roce.agent_config import AgentConfig
from emulation.roce.collective_part import CollectivePart
from emulation.roce.job_run import JobRun, Report
from emulation.roce.lines import LineBuffer, LineError, to_line
from emulation.roce.nic import NicEndpoint, QpPath
from emulation.roce.udp import QueuePairError

_STDIN = 0


class AgentError(RuntimeError):
    """The collectives cannot be finished."""


def run_agent(source: str) -> int:
    """Run the configuration in the file ``source``, or in the first line of standard input if it is ``-``.

    Prints one JSON object, the result. With no ``start_at`` in the configuration there is a launcher: prints
    ``{"event": "ready"}`` before, waits for ``{"start_at": seconds}`` on standard input, reports the end of each stage
    of a job but the last, waits for ``{"job", "stage", "ended_at"}``, and answers its peers until standard input ends.
    With ``tally_seconds``, it also prints regularly what its queue pairs have sent (``{"event": "tally"}``).

    Returns:
        0, or 1 if a result was wrong.

    Raises:
        InputError: the configuration is invalid.
        AgentError: the collectives could not be finished; names the missing messages.
    """
    orders = _Orders()
    config = agent_config.read(source) if source != "-" else _parse_line(orders.wait())
    own, rate = config.addresses_of(config.ip), config.options.line_rate
    with NicEndpoint(own, port=config.port, line_rate=rate, namespaces=config.namespaces) as nic:
        loop = nic.loop
        agent = Agent(config, nic, _report if config.start_at is None else None)
        start_at = config.start_at
        if start_at is None:
            loop.watch(_STDIN, orders.on_readable)
            _say({"event": "ready", "host": config.host})
            loop.run(lambda: bool(orders.received) or orders.ended)
            if orders.ended:
                raise AgentError("no start time was received")
            start_at = _start_time(orders.received.pop(0))
            orders.obey = agent.on_order
        loop.run(lambda: orders.ended, deadline=start_at)
        agent.begin(start_at)
        if config.tally_seconds:
            agent.tell_tallies(_say, start_at)
        try:
            loop.run(lambda: agent.done or orders.ended)
        except QueuePairError as error:
            raise AgentError(f"{error}; {agent.unfinished()}") from error
        if not agent.done:
            raise AgentError("stopped before the end: " + agent.unfinished())
        result = agent.result()
        _say(result)
        # A peer may not have the last acknowledgement yet, and will ask for it again.
        if config.start_at is None:
            loop.run(lambda: orders.ended)
        else:
            loop.run(lambda: False, deadline=time.monotonic() + config.linger)
    return 0 if result["checked"] else 1


class Agent:
    """The jobs of one host; they run in the loop of its NIC."""

    def __init__(self, config: AgentConfig, nic: NicEndpoint, report: Report | None = None) -> None:
        """Create the parts of this host in all collectives; ``report`` as for ``JobRun``."""
        self._config = config
        self._nic = nic
        self._parts = [CollectivePart(part, config, nic) for part in config.parts]
        self._jobs = {
            cycle.job: JobRun(
                cycle,
                [part for part in self._parts if part.config.collective.job == cycle.job],
                nic.loop.call_at,
                report,
            )
            for cycle in config.cycles
        }

    def begin(self, start_at: float) -> None:
        """Begin all jobs; ``start_at`` of the monotonic clock is their common start."""
        for job in self._jobs.values():
            job.begin(start_at)

    def tell_tallies(self, say: Callable[[dict[str, Any]], None], at: float) -> None:
        """Report what each queue pair has sent so far, at ``at`` of the monotonic clock and regularly until the end."""
        rows = [row for part in self._parts for row in part.tallies()]
        resent = [part.resent() for part in self._parts]
        say(
            {
                "event": "tally",
                "at": time.time(),
                "qps": [
                    {"src": path.src, "dst": path.dst, "udp_src": path.udp_src, "dst_qp": qp} for path, qp, _ in rows
                ],
                "bytes": [size for _, _, size in rows],
                "host": self._config.host,
                "naks": sum(naks for naks, _ in resent),
                "retransmissions": sum(packets for _, packets in resent),
            }
        )
        if not self.done:
            following = at + self._config.tally_seconds
            self._nic.loop.call_at(following, lambda: self.tell_tallies(say, following))

    def on_order(self, order: dict[str, Any]) -> None:
        """Take an order of the launcher: other paths and paces of queue pairs, or what of a job has ended."""
        if "moves" in order:
            for row in order["moves"]:
                self._nic.move(row["qp"], QpPath(row["src"], row["dst"], row["udp_src"], row["dscp"]))
                self._nic.pace(row["qp"], row["pace"])
            return
        job, ended_at = self._jobs[order["job"]], order["ended_at"]
        if order["collective"] is None:
            job.go_on(order["stage"], ended_at)
        else:
            job.take_end(order["stage"], order["collective"], ended_at)

    @property
    def done(self) -> bool:
        """Return whether all jobs are done."""
        return all(job.done for job in self._jobs.values())

    def unfinished(self) -> str:
        """Return the states of the parts of unfinished jobs as text."""
        return "; ".join(part.state() for part in self._parts if not self._jobs[part.config.collective.job].done)

    def result(self) -> dict[str, Any]:
        """Return the result of this host as plain data."""
        rows = [part.result() for part in self._parts]
        return {
            "event": "result",
            "host": self._config.host,
            "checked": all(row["checked"] for row in rows),
            "cpu_seconds": time.process_time(),
            "datagrams": asdict(self._nic.counters),
            "collectives": rows,
        }


class _Orders:
    """Lines on standard input; its end is an order too. ``obey`` gets those that come after the start."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.ended = False
        self.obey: Callable[[dict[str, Any]], None] | None = None
        self._lines = LineBuffer()

    def on_readable(self) -> None:
        data = os.read(_STDIN, 64 * 1024)
        self.ended = not data
        try:
            self.received += self._lines.feed(data)
        except LineError as error:
            raise InputError(str(error), source="standard input") from error
        while self.obey is not None and self.received:
            self.obey(self.received.pop(0))

    def wait(self) -> dict[str, Any]:
        while not self.received and not self.ended:
            self.on_readable()
        if not self.received:
            raise InputError("ended before the configuration", source="standard input")
        return self.received.pop(0)


def _parse_line(document: dict[str, Any]) -> AgentConfig:
    try:
        return agent_config.parse(document)
    except InputError as error:
        raise error.with_source("standard input") from error


def _start_time(order: dict[str, Any]) -> float:
    value = order.get("start_at")
    if not isinstance(value, (int, float)):
        raise InputError("a number", field="start_at", value=value, source="standard input")
    return float(value)


def _report(job: str, stage: int, collective: str | None, ended: float) -> None:
    _say({"event": "ended", "job": job, "stage": stage, "collective": collective, "at": ended})


def _say(value: dict[str, Any]) -> None:
    sys.stdout.buffer.write(to_line(value))
    sys.stdout.buffer.flush()
