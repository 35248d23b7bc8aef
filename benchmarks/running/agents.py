"""Measure how long a new plan takes to many agents of hosts. Needs no root and no hosts: the agents are simulated.

Usage: ``python -m benchmarks.running.agents [--leaves 64] [--spines 32] [--hosts 32] [--plans 3] [--report-seconds S]
[--store postgresql://... --followers N] [--json FILE]``.

Starts its own ``ryu-manager`` on loopback with a fabric of routers. Each simulated agent waits for its plan, and
confirms it in the request for the next one, as real agents do; it sets no kernel. Besides, it reports as real agents
of such a fabric do, or every ``--report-seconds`` (0: never), in another connection. Then a job of all hosts is pushed,
its paths change by a drain of a spine, and it comes back; and a job of 8 hosts is pushed, and ends.
For each of these: seconds until the answer, and until the plan is active; how many agents are sent a plan or changes of
one, and bytes of all; processor time and memory of the controller; and processor time of the agents.

With ``--followers``, that controller leads a cluster on an empty database, and so many others follow it: the agents
know the followers only, and what these take is measured beside it.

The agents are one process, which takes processor time of the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from agent.connection.controller_connection import TABLE
from agent.connection.conversation import FIRST_PAUSE_SECONDS
from controller.model.fabric import Fabric, Switch
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from emulation.controller_process import ControllerProcess, controller_command, spawn_to

WAIT_SECONDS = 30
LONGEST_SECONDS = 120.0
STEADY_SECONDS = 10.0
SPINE = "spine1"
USUAL_REPORT_SECONDS = 10.0
FEW = 8
"""Hosts of a second job."""


@dataclass
class Agents:
    """Simulated agents of all hosts.

    Attributes:
        ports: of the controllers that they ask, in turn.
        report_seconds: between two reports of an agent; ``None``: as real ones; 0: it confirms new plans only.
        hosts: those that have a plan.
        told: plans, or changes of plans, that have come.
        sent: bytes of these.
        broken: connections that ended before their time.
        refused: reports that were not taken.
    """

    ports: list[int]
    report_seconds: float | None = None
    hosts: set[str] = field(default_factory=set)
    told: int = 0
    sent: int = 0
    broken: int = 0
    refused: int = 0
    _planned_seconds: float = 0.0
    _turn: int = 0

    async def run(self, host: str) -> None:
        """Follow plans for ever."""
        self._turn += 1
        port = self.ports[self._turn % len(self.ports)]
        known, table, polls, reports = "", "", _Connection(port), _Connection(port)
        held: dict[str, Any] = {}
        confirmed: str | None = None
        often = self.report_seconds != 0
        again = asyncio.create_task(self._report_often(host, held, reports)) if often else None
        try:
            while True:
                try:
                    query = f"form=changes&wait={WAIT_SECONDS}{known}"
                    if held and (confirmed != held["digest"] or self._reports_in_polls):
                        waiting = polls.ask("POST", f"/v1/hosts/{host}/report?{query}", json.dumps(held).encode())
                    else:
                        waiting = polls.ask("GET", f"/v1/hosts/{host}/segments?{query}", b"")
                    status, body = await waiting
                    if status not in (200, 204, 304):
                        self.refused += 1
                        await asyncio.sleep(FIRST_PAUSE_SECONDS)
                        continue
                    confirmed = held.get("digest")
                    if status != 200:
                        continue
                    self.sent += len(body)
                    self.told += 1
                    plan = orjson.loads(body)
                    if plan["table_digest"] != table:
                        status, body = await polls.ask("GET", f"/v1/hosts/{host}/{TABLE}", b"")
                        self.sent += len(body)
                        if status != 200:
                            # Without the table, the plan cannot be used.
                            self.refused += 1
                            await asyncio.sleep(FIRST_PAUSE_SECONDS)
                            continue
                        table = plan["table_digest"]
                    held |= {"epoch": plan["epoch"], "digest": plan["digest"]}
                    self._planned_seconds = plan["report_seconds"]
                    known = f"&after={plan['epoch']}&digest={plan['digest']}&destinations={plan['destinations_digest']}"
                    self.hosts.add(host)
                except (OSError, EOFError):
                    self.broken += 1
                    await asyncio.sleep(1.0)
        finally:
            if again is not None:
                again.cancel()

    async def _report(self, host: str, held: dict[str, Any], reports: _Connection) -> None:
        while True:
            async with reports.lock:
                status, _ = await reports.ask("POST", f"/v1/hosts/{host}/report", json.dumps(held).encode())
            if status == 204:
                return
            self.refused += 1
            await asyncio.sleep(FIRST_PAUSE_SECONDS)

    async def _report_often(self, host: str, held: dict[str, Any], reports: _Connection) -> None:
        while not held:
            await asyncio.sleep(1.0)
        await asyncio.sleep(random.uniform(0, self._seconds()))
        while True:
            try:
                if not self._reports_in_polls:
                    await self._report(host, held, reports)
            except (OSError, EOFError):
                self.broken += 1
            await asyncio.sleep(self._seconds())

    def _seconds(self) -> float:
        return USUAL_REPORT_SECONDS if self.report_seconds is None else self.report_seconds

    @property
    def _reports_in_polls(self) -> bool:
        """Whether a report without news comes with a request for a plan: the fabric is large."""
        return self.report_seconds is None and self._planned_seconds > USUAL_REPORT_SECONDS


class _Connection:
    """A connection that is kept, and opened again if it has ended."""

    def __init__(self, port: int) -> None:
        self._port, self.lock = port, asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        kept = self._streams is not None
        try:
            return await self._ask(method, target, body)
        except (OSError, EOFError):
            if not kept:
                raise
        # The controller has closed a connection that it did not need.
        return await self._ask(method, target, body)

    async def _ask(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        reader, writer = self._streams
        try:
            kind = "Content-Type: application/json\r\n\r\n" if body else "\r\n"
            kind = "Accept-Encoding: gzip\r\n" + kind if target.endswith(TABLE) else kind
            lines = (f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self._port}", f"Content-Length: {len(body)}")
            head = "\r\n".join((*lines, kind))
            writer.write(head.encode() + body)
            answer_head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            fields = dict(line.lower().split(": ", 1) for line in answer_head[1:] if ": " in line)
            size = int(fields.get("content-length", 0))
            answer = await reader.readexactly(size)
            if fields.get("connection") == "close":
                writer.close()
                self._streams = None
            return int(answer_head[0].split()[1]), answer
        except (OSError, EOFError):
            writer.close()
            self._streams = None
            raise


def routers(leaves: int, spines: int, hosts: int) -> Fabric:
    """Return a leaf-spine fabric of routers."""
    fabric = clos(spines, leaves, hosts)
    layers = tuple(tuple(Switch.router(each.name) for each in layer) for layer in fabric.layers)
    return Fabric(layers, fabric.hosts, fabric.cables)


async def measured(
    process: ControllerProcess,
    followers: list[ControllerProcess],
    agents: Agents,
    what: str,
    change: Callable[[], Any],
) -> dict[str, Any]:
    """Make a change, and wait until its plan is active."""
    before, told, own = agents.sent, agents.told, time.process_time()
    began, processor = time.monotonic(), processor_seconds(process.pid)
    by_followers = sum(processor_seconds(each.pid) for each in followers)
    await asyncio.to_thread(change)
    answered = time.monotonic() - began
    epoch = (await asyncio.to_thread(process.ask, "GET", "/v1/plan")).body["computed"]["epoch"]
    row = {"change": what, "answered": answered, "active": None, "broken": agents.broken}
    while time.monotonic() - began < LONGEST_SECONDS and row["active"] is None:
        health = (await asyncio.to_thread(process.ask, "GET", "/healthz")).body
        if (health["active_epoch"] or -1) >= epoch:
            row["active"] = time.monotonic() - began
        await asyncio.sleep(0.1)
    used = processor_seconds(process.pid) - processor
    return row | {
        "processor": used,
        "of_followers": sum(processor_seconds(each.pid) for each in followers) - by_followers,
        "confirmed": health["agents"]["confirmed"],
        "refused": agents.refused,
        "of_agents": time.process_time() - own,
        "told": agents.told - told,
        "bytes": agents.sent - before,
    }


async def steady(process: ControllerProcess, followers: list[ControllerProcess], seconds: float) -> dict[str, Any]:
    """Return the share of a processor that the controllers take while no plan changes."""
    before, by_followers = processor_seconds(process.pid), sum(processor_seconds(each.pid) for each in followers)
    await asyncio.sleep(seconds)
    return {
        "change": "none",
        "seconds": seconds,
        "processor_share": (processor_seconds(process.pid) - before) / seconds,
        "of_followers": (sum(processor_seconds(each.pid) for each in followers) - by_followers) / seconds,
    }


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has taken."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _controllers(file: Path, folder: Path, store: str, followers: int) -> list[ControllerProcess]:
    """Return the leader first, and then those that follow it; none is started."""
    made = []
    options = ["--fabric", str(file), "--enforcement", "srv6", "--store", store]
    if followers:
        options += ["--cluster-name", "agents", "--lease", "10"]
    for number in range(1 + followers):
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            ports = one.getsockname()[1], other.getsockname()[1]
        command = controller_command(*options, openflow_port=ports[0], http_port=ports[1])
        log = folder / f"controller{number}.log"
        made.append(ControllerProcess(command, spawn_to(log), http_port=ports[1]))
    return made


async def run(
    fabric: Fabric, folder: Path, plans: int, report_seconds: float | None, store: str, n_followers: int
) -> list[dict[str, Any]]:
    """Start the controllers and the agents, and measure."""
    file = folder / "fabric.json"
    file.write_text(json.dumps(fabric_document(fabric)))
    process, *followers = controllers = _controllers(file, folder, store, n_followers)
    tasks = []
    try:
        for each in controllers:
            await asyncio.to_thread(each.start)
        asked = [each.address[1] for each in followers or controllers]
        agents, hosts = Agents(asked, report_seconds), tuple(fabric.host_names)
        began = time.monotonic()
        tasks = [asyncio.create_task(agents.run(host)) for host in hosts]
        while len(agents.hosts) < len(hosts):
            await asyncio.sleep(0.2)
        rows = list[dict[str, Any]]()

        def add(row: dict[str, Any]) -> None:
            memory = [memory_bytes(each.pid) for each in controllers]
            rows.append(row | {"memory": memory[0], "memory_of_followers": max(memory[1:], default=0)})
            print(_line(rows[-1]), flush=True)

        # Collecting what never becomes garbage would take a third of the agents' processor time.
        gc.collect()
        gc.freeze()
        add({"change": "start", "all_have_it": time.monotonic() - began})
        job = {
            "hosts": list(hosts),
            "collectives": [{"name": "dp", "op": "all_reduce", "ranks": list(range(len(hosts))), "bytes": 10**9}],
        }
        add(await measured(process, followers, agents, "push", lambda: process.ask("PUT", "/v1/jobs/all", job)))
        for number in range(1, plans):
            drained = bool(number % 2)
            target, body = f"/v1/fabric/links/{SPINE}", {"drained": drained}
            change, ask = "drain" if drained else "undrain", partial(process.ask, "PUT", target, body)
            add(await measured(process, followers, agents, change, ask))
        few = {
            "hosts": list(hosts[:: max(1, len(hosts) // FEW)][:FEW]),
            "collectives": [{"name": "few", "op": "all_reduce", "ranks": list(range(FEW)), "bytes": 10**6}],
        }
        for change, ask in (
            ("push of few hosts", partial(process.ask, "PUT", "/v1/jobs/few", few)),
            ("its end", partial(process.ask, "DELETE", "/v1/jobs/few")),
        ):
            add(await measured(process, followers, agents, change, ask))
        add(await steady(process, followers, STEADY_SECONDS))
        return rows
    finally:
        for task in tasks:
            task.cancel()
        for each in reversed(controllers):
            await asyncio.to_thread(each.stop)


def _line(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("leaves", 64), ("spines", 32), ("hosts", 32), ("plans", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--report-seconds", type=float)
    parser.add_argument("--followers", type=int, default=0)
    parser.add_argument("--store", default="memory")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    # Two connections of each agent.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    fabric = routers(args.leaves, args.spines, args.hosts)
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(run(fabric, Path(folder), args.plans, args.report_seconds, args.store, args.followers))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
