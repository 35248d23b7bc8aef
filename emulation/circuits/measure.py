"""One iteration of a planned job on the packets of a lab, and its time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.southbound.addresses import nic_address, tree_address
from emulation.circuits.lab import CircuitLab
from emulation.circuits.traffic import MessageTask, RingTask, ServerTasks
from emulation.errors import LabError


@dataclass(frozen=True)
class MeasuredIteration:
    """The time from the first begin to the last end on the servers, and the sums that were wrong."""

    seconds: float
    wrong: tuple[str, ...]


def planned_tasks(plan: ShardPlan) -> dict[int, ServerTasks]:
    """Return what each server of a plan of one phase sends: rings on their circuits, messages over their trees."""
    demand, routes, servers = plan.shard.demand, plan.routes, plan.shard.servers
    rings: dict[int, list[RingTask]] = {server: [] for server in servers}
    messages: dict[int, list[MessageTask]] = {server: [] for server in servers}
    incoming = dict.fromkeys(servers, 0)
    for number, ring in enumerate(routes.rings):
        group, n = demand.groups[ring.group], len(ring.order)
        # A member sends 2 (n - 1) / n of the vector.
        size = round(ring.share * group.edge_bytes * n / (2 * (n - 1)))
        for position, member in enumerate(ring.order):
            after = ring.order[(position + 1) % n]
            # A loose ring sends by the first tree to the next member.
            address = (
                tree_address(servers[after], 0)
                if ring.layer == LOOSE
                else nic_address(servers[after], int(plan.ends.receiver[ring.layer, member]))
            )
            rings[servers[member]].append(RingTask(str(number), position, n, address, size))
    for src in range(demand.n):
        for dst in range(demand.n):
            for tree, share in enumerate(routes.shares[0, :, dst].tolist()):
                size = round(float(demand.messages[0, src, dst]) * share)
                if size > 0:
                    messages[servers[src]].append(MessageTask(tree_address(servers[dst], tree), size))
                    incoming[servers[dst]] += 1
    return {s: ServerTasks(tuple(rings[s]), tuple(messages[s]), incoming[s]) for s in servers}


def ideal_tasks(plan: ShardPlan, nics: int) -> dict[int, ServerTasks]:
    """Return the same bytes for the ideal switch: equal parts on all NICs, rings in the order of servers."""
    demand, servers = plan.shard.demand, plan.shard.servers
    rings: dict[int, list[RingTask]] = {server: [] for server in servers}
    messages: dict[int, list[MessageTask]] = {server: [] for server in servers}
    incoming = dict.fromkeys(servers, 0)
    for nic in range(nics):
        for g, group in enumerate(demand.groups):
            n = len(group.members)
            size = round(group.edge_bytes * n / (2 * (n - 1)) / nics)
            for position, member in enumerate(group.members):
                after = nic_address(servers[group.members[(position + 1) % n]], nic)
                rings[servers[member]].append(RingTask(f"{g}-{nic}", position, n, after, size))
        for src in range(demand.n):
            for dst in range(demand.n):
                size = round(float(demand.messages[0, src, dst]) / nics)
                if size > 0:
                    messages[servers[src]].append(MessageTask(nic_address(servers[dst], nic), size))
                    incoming[servers[dst]] += 1
    return {s: ServerTasks(tuple(rings[s]), tuple(messages[s]), incoming[s]) for s in servers}


def measure(lab: CircuitLab, tasks: Mapping[int, ServerTasks]) -> MeasuredIteration:
    """Have all servers do their tasks at once.

    Raises:
        LabError: a server failed.
    """
    argv = [sys.executable, "-m", "emulation.circuits.traffic"]
    pipe = subprocess.PIPE
    names = [lab.optical.servers[server] for server in tasks]
    running = [lab.popen(name, argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for name in names]
    try:
        for process, own in zip(running, tasks.values(), strict=True):
            _write(process.stdin, own.line())
        for name, process in zip(names, running, strict=True):
            _read(name, process)
        for process in running:
            _write(process.stdin, "go\n")
        results = [json.loads(_read(name, process)) for name, process in zip(names, running, strict=True)]
    finally:
        for process in running:
            process.kill()
            process.communicate()
    began, ended = min(row["began"] for row in results), max(row["ended"] for row in results)
    wrong = [f"{name}: {what}" for name, row in zip(names, results, strict=True) for what in row["wrong"]]
    return MeasuredIteration(ended - began, tuple(wrong))


def _write(stream: IO[str] | None, line: str) -> None:
    assert stream is not None
    stream.write(line)
    stream.flush()


def _read(name: str, process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        assert process.stderr is not None
        said: Sequence[str] = process.stderr.read().strip().splitlines()
        raise LabError(f"traffic on {name} ended: {said[-1] if said else process.returncode}")
    return line
