"""The plan of a host whose source ports select paths: what it is to probe, and for which flows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, NamedTuple

from agent.fields import converted, member, pace
from agent.plans.flow_keys import Address
from agent.ports.probe_task import MOST_PORT, MOST_RATE, AnswerBudget, ProbeTask, read_task
from controller.model.errors import InputError

MOST_SECONDS = 1e6


class NumberedFlow(NamedTuple):
    """A flow that the host sends.

    Attributes:
        dst: the receiver.
        number: among the flows of the two hosts.
        path: the path.
        pace: bit/s on the link; ``None``: it need not be paced.
    """

    dst: Address
    number: int
    path: int
    pace: int | None = None


class PlannedConnections(NamedTuple):
    """The TCP connections between this host and another one.

    Attributes:
        path: of what the host sends; ``None``: any.
        comes_back: whether a path is planned for what the other one sends.
        pace: of what the host sends on each of them, bit/s on the link; ``None``: it need not be paced.
    """

    path: int | None
    comes_back: bool
    pace: int | None = None


@dataclass(frozen=True)
class PortPlan:
    """The plan of a host.

    Attributes:
        epoch: number of the plan.
        digest: hash of what it says to this host.
        task: what is to be probed.
        flows: for which the ports are.
        connections: those of TCP, by the other host, to which the task has routes.
        check_seconds: between two checks of a port in use.
        report_seconds: between two reports in which nothing is new, at least.
        sampled_rate: packets a second that the host may send where routers answer no probes, and sample packets for the
            controller; ``None``: the controller gets no samples.
    """

    epoch: int
    digest: str
    task: ProbeTask
    flows: tuple[NumberedFlow, ...]
    connections: Mapping[Address, PlannedConnections]
    check_seconds: float
    report_seconds: float
    sampled_rate: float | None = None

    @property
    def id(self) -> tuple[int, str]:
        """Return the epoch and the digest, which identify the plan."""
        return self.epoch, self.digest

    @property
    def host(self) -> str:
        """Return the name of the host."""
        return self.task.host


def read_port_plan(document: Any) -> PortPlan:
    """Return the plan in a document of the controller.

    Raises:
        InputError: a field is missing or wrong.
    """
    epoch, digest = member(document, "", "epoch", int), member(document, "", "digest", str)
    task = read_task(document)
    paths = {pair.dst: pair.wanted for pair in task.pairs}
    flows = []
    for n, row in enumerate(member(document, "", "flows", list)):
        where = f"flows[{n}]."
        dst = converted(ip_address, member(row, where, "dst", str), f"{where}dst", "an IP address")
        number, path = member(row, where, "number", int), member(row, where, "path", int)
        if not 0 < number <= MOST_PORT:
            raise InputError(f"is not from 1 to {MOST_PORT}", field=f"{where}number", value=number)
        if path not in paths.get(dst, ()):
            raise InputError("is no path for which ports are wanted", field=f"{where}path", value=path)
        flows.append(NumberedFlow(dst, number, path, pace(row, where)))
    if len({(flow.dst, flow.number) for flow in flows}) < len(flows):
        raise InputError("has a flow twice", field="flows")
    connections = _connections(document, task)
    if flows and connections:
        # Each kind is probed by its own sockets, which know nothing of the other's budget.
        burst, *rates = task.budget
        task = dataclasses.replace(task, budget=AnswerBudget(max(burst // 2, 1), *(rate / 2 for rate in rates)))
    return PortPlan(
        epoch,
        digest,
        task,
        tuple(flows),
        connections,
        _seconds(document, "check_seconds"),
        _seconds(document, "report_seconds"),
        _sampled_rate(document.get("samples")),
    )


def _sampled_rate(row: Any) -> float | None:
    if row is None:
        return None
    rate = row.get("a_second") if isinstance(row, dict) else None
    if not isinstance(rate, int | float) or isinstance(rate, bool) or not 0 < rate <= MOST_RATE:
        raise InputError("is no number of packets a second", field="samples.a_second", value=rate)
    return float(rate)


def _connections(document: Any, task: ProbeTask) -> dict[Address, PlannedConnections]:
    numbers = {pair.dst: pair.routes.numbers for pair in task.pairs}
    connections: dict[Address, PlannedConnections] = {}
    # A controller of an earlier version knows of none.
    for n, row in enumerate(member(document, "", "connections", list) if "connections" in document else ()):
        where = f"connections[{n}]."
        dst = converted(ip_address, member(row, where, "dst", str), f"{where}dst", "an IP address")
        if dst not in numbers:
            raise InputError("is no destination of pairs", field=f"{where}dst", value=str(dst))
        if dst in connections:
            raise InputError("has a destination twice", field="connections")
        path = None if row.get("path") is None else member(row, where, "path", int)
        if path is not None and path not in numbers[dst]:
            raise InputError("is no path to this destination", field=f"{where}path", value=path)
        back = row.get("comes_back")
        if not isinstance(back, bool):
            raise InputError("is not true or false", field=f"{where}comes_back", value=back)
        connections[dst] = PlannedConnections(path, back, pace(row, where))
    return connections


def _seconds(document: Any, name: str) -> float:
    value = document.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MOST_SECONDS:
        raise InputError(f"is no number of seconds up to {MOST_SECONDS:g}", field=name, value=value)
    return float(value)
