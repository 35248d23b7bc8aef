"""The plan of a host whose source ports select paths: what it is to probe, and for which flows."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, NamedTuple

from agent.fields import converted, member
from agent.ports.probe_task import MOST_PORT, ProbeTask, read_task
from controller.model.errors import InputError

MOST_SECONDS = 1e6


class NumberedFlow(NamedTuple):
    """A flow that the host sends: the receiver, its number among the flows of the two hosts, and its path."""

    dst: IPv4Address
    number: int
    path: int


@dataclass(frozen=True)
class PortPlan:
    """The plan of a host.

    Attributes:
        epoch: number of the plan.
        digest: hash of what it says to this host.
        task: what is to be probed.
        flows: for which the ports are.
        check_seconds: between two checks of a port in use.
        report_seconds: between two reports in which nothing is new, at least.
    """

    epoch: int
    digest: str
    task: ProbeTask
    flows: tuple[NumberedFlow, ...]
    check_seconds: float
    report_seconds: float

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
        dst = converted(IPv4Address, member(row, where, "dst", str), f"{where}dst", "an IPv4 address")
        number, path = member(row, where, "number", int), member(row, where, "path", int)
        if not 0 < number <= MOST_PORT:
            raise InputError(f"is not from 1 to {MOST_PORT}", field=f"{where}number", value=number)
        if path not in paths.get(dst, ()):
            raise InputError("is no path for which ports are wanted", field=f"{where}path", value=path)
        flows.append(NumberedFlow(dst, number, path))
    if len({(flow.dst, flow.number) for flow in flows}) < len(flows):
        raise InputError("has a flow twice", field="flows")
    return PortPlan(
        epoch,
        digest,
        task,
        tuple(flows),
        _seconds(document, "check_seconds"),
        _seconds(document, "report_seconds"),
    )


def _seconds(document: Any, name: str) -> float:
    value = document.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MOST_SECONDS:
        raise InputError(f"is no number of seconds up to {MOST_SECONDS:g}", field=name, value=value)
    return float(value)
