"""One iteration of a planned job on the packets of a lab, and its time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.planning.routes import ChosenRing
from controller.circuits.southbound.addresses import nic_address, tree_address
from emulation.circuits.lab import CircuitLab
from emulation.circuits.traffic import MessageTask, RingTask, RingWay, ServerTasks
from emulation.errors import LabError
from emulation.processor import IdleShare

_RING_PACE = 2.0
"""Of a ring, over that at which it would just end in time: it has to make up for waits."""

COUNTERS_SECONDS = 1.5
"""Open vSwitch brings counters up to date once a second."""


@dataclass(frozen=True)
class MeasuredIteration:
    """The time from the first begin to the last end on the servers, and what went wrong.

    Attributes:
        seconds: the time.
        wrong: the sums that were wrong.
        idle: the part of the processors' time that was idle.
    """

    seconds: float
    wrong: tuple[str, ...]
    idle: float


def planned_tasks(plan: ShardPlan, seconds: float) -> dict[int, ServerTasks]:
    """Return what each server of a plan of one phase sends: rings on their circuits, messages over their trees.

    Each message has the pace at which it ends after ``seconds``, so that rings have the rest of each circuit. Without
    paces, TCP would give a message as much of a circuit as a ring that has more bytes, and a ring waits for its slowest
    circuit.
    """
    demand, routes, servers = plan.shard.demand, plan.routes, plan.shard.servers
    rings: dict[int, list[RingTask]] = {server: [] for server in servers}
    messages: dict[int, list[MessageTask]] = {server: [] for server in servers}
    incoming = dict.fromkeys(servers, 0)

    def ways_to(after: int, ring: ChosenRing, member: int) -> tuple[RingWay, ...]:
        """Return how a member sends: by its NIC of a pinned ring, or else by all trees to the next member."""
        if ring.layer != LOOSE:
            return (RingWay(nic_address(servers[after], int(plan.ends.receiver[ring.layer, member])), 1.0),)
        shares = enumerate(routes.shares[0, :, after].tolist())
        return tuple(RingWay(tree_address(servers[after], tree), share) for tree, share in shares if share > 0)

    for number, ring in enumerate(routes.rings):
        group, n = demand.groups[ring.group], len(ring.order)
        # A member sends 2 (n - 1) / n of the vector.
        size = round(ring.share * group.edge_bytes * n / (2 * (n - 1)))
        pace = round(_RING_PACE * ring.share * group.edge_bytes / seconds)
        for position, member in enumerate(ring.order):
            after = ring.order[(position + 1) % n]
            before = ring.order[position - 1]
            ways, ways_in = ways_to(after, ring, member), ways_to(member, ring, before)
            shares_in = tuple(way.share for way in ways_in)
            rings[servers[member]].append(RingTask(str(number), position, n, ways, shares_in, size, pace))
    for src in range(demand.n):
        for dst in _in_turn(src, demand.n):
            for tree, share in enumerate(routes.shares[0, :, dst].tolist()):
                size = round(float(demand.messages[0, src, dst]) * share)
                if size > 0:
                    messages[servers[src]].append(
                        MessageTask(tree_address(servers[dst], tree), size, round(size / seconds))
                    )
                    incoming[servers[dst]] += 1
    return {s: ServerTasks(tuple(rings[s]), tuple(messages[s]), incoming[s]) for s in servers}


def ideal_tasks(plan: ShardPlan, nics: int, seconds: float) -> dict[int, ServerTasks]:
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
                ways = (RingWay(nic_address(servers[group.members[(position + 1) % n]], nic), 1.0),)
                pace = round(_RING_PACE * group.edge_bytes / nics / seconds)
                rings[servers[member]].append(RingTask(f"{g}-{nic}", position, n, ways, (1.0,), size, pace))
        for src in range(demand.n):
            for dst in _in_turn(src, demand.n):
                size = round(float(demand.messages[0, src, dst]) / nics)
                if size > 0:
                    address = nic_address(servers[dst], nic)
                    messages[servers[src]].append(MessageTask(address, size, round(size / seconds)))
                    incoming[servers[dst]] += 1
    return {s: ServerTasks(tuple(rings[s]), tuple(messages[s]), incoming[s]) for s in servers}


def _in_turn(src: int, n: int) -> list[int]:
    """Return all servers, each after the sender: messages to one of them then take turns at its receiver, too."""
    return [(src + step) % n for step in range(n)]


def measure(lab: CircuitLab, tasks: Mapping[int, ServerTasks]) -> MeasuredIteration:
    """Have all servers do their tasks at once.

    Raises:
        LabError: a server failed.
    """
    names = [lab.optical.servers[server] for server in tasks]
    with on_servers(lab, "emulation.circuits.traffic", names) as running:
        for process, own in zip(running.values(), tasks.values(), strict=True):
            write_line(process, own.line())
        for name, process in running.items():
            read_line(name, process)
        share = IdleShare()
        for process in running.values():
            write_line(process, "go")
        results = [json.loads(read_line(name, process)) for name, process in running.items()]
        idle = share.now()
    began, ended = min(row["began"] for row in results), max(row["ended"] for row in results)
    wrong = [f"{name}: {what}" for name, row in zip(names, results, strict=True) for what in row["wrong"]]
    return MeasuredIteration(ended - began, tuple(wrong), idle)


def fullest_bytes(lab: CircuitLab) -> int:
    """Return the bytes of the circuit that has carried most, headers included, once counters stand still."""
    before, now = None, lab.carried()
    while now != before:
        time.sleep(COUNTERS_SECONDS)
        before, now = now, lab.carried()
    return max(size for _, size in now.values())


@contextmanager
def on_servers(lab: CircuitLab, module: str, names: Iterable[str]) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Run a Python module on servers; what still runs at the end is killed."""
    argv, pipe = [sys.executable, "-m", module], subprocess.PIPE
    running = {name: lab.popen(name, argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for name in names}
    try:
        yield running
    finally:
        for process in running.values():
            process.kill()
            process.communicate()


def write_line(process: subprocess.Popen[str], line: str) -> None:
    """Give a process a line."""
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def read_line(name: str, process: subprocess.Popen[str]) -> str:
    """Return the next line of a process on a server.

    Raises:
        LabError: it has ended.
    """
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        assert process.stderr is not None
        said: Sequence[str] = process.stderr.read().strip().splitlines()
        raise LabError(f"traffic on {name} ended: {said[-1] if said else process.returncode}")
    return line
