"""What the agents of hosts have reported of source ports, and how old it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from controller.core.ports.host_agents import HostReport, PortReport
from controller.model.network_state import PortlessPath
from controller.southbound.enforcement.learned_ports import FlowId, LearnedPort, LearnedPorts

MOST_NAMED = 5
"""Destinations, or addresses, that one notice names."""


NOTHING = PortReport("unknown")


class PortNews(NamedTuple):
    """What is new in a report: paths without a port, and notices."""

    paths: bool
    notices: bool


class HostPorts:
    """The newest report of each host."""

    def __init__(self) -> None:
        """Begin without reports."""
        self._reports: dict[str, tuple[float, PortReport]] = {}
        self.portless: frozenset[PortlessPath] = frozenset()

    def take(self, host: str, report: HostReport, now: float) -> PortNews:
        """Take a report; return what is new in it."""
        if report.ports is None:
            return PortNews(False, False)
        _, before = self._reports.get(host, (0.0, NOTHING))
        notices = [*_notices(host, before)]
        self._reports[host] = now, report.ports
        news = PortNews(before.unreachable != report.ports.unreachable, notices != [*_notices(host, report.ports)])
        if news.paths:
            others = (each for each in self.portless if each.host != host)
            own = (
                PortlessPath(host, each.dst, each.map, path) for each in report.ports.unreachable for path in each.paths
            )
            self.portless = frozenset([*others, *own])
        return news

    def learned(self, now: float) -> LearnedPorts:
        """Return what is known of the ports of flows."""
        return {host: _aged(report, now - at) for host, (at, report) in self._reports.items()}

    def notices(self, hosts: Collection[str] | None = None) -> Iterator[str]:
        """Yield what people should know of the answers to probes, of these hosts; ``None``: of all."""
        for host, (_, report) in sorted(self._reports.items()):
            if hosts is None or host in hosts:
                yield from _notices(host, report)


def _notices(host: str, report: PortReport) -> Iterator[str]:
    if astray := [each for each in report.flows if each.astray]:
        which = ", ".join(f"{each.dst} from port {each.port}" for each in astray[:MOST_NAMED])
        more = f" and {len(astray) - MOST_NAMED} more" if len(astray) > MOST_NAMED else ""
        shown = "samples" if astray[0].evidence == "samples" else "probes"
        yield f"{host}: {shown} show that flows to {which}{more} do not take their planned paths"
    if report.silent:
        yield f"{host}: routers do not answer probes to {_some(report.silent)}: paths of ports are not known"
    unknown = sorted({each.answers[-1] for each in report.strange if not each.unreachable and each.answers})
    if unknown:
        yield f"{host}: {_some(unknown)} answered probes, and no path of the fabric file has that there"


def _aged(report: PortReport, seconds: float) -> dict[FlowId, LearnedPort]:
    return {
        (each.dst, each.number): LearnedPort(
            each.port,
            each.path,
            None if each.seconds is None else each.seconds + seconds,
            each.evidence == "samples",
        )
        for each in report.flows
    }


def _some(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
