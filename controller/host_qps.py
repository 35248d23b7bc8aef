"""The open QPs of hosts, of which the reports of an agent may tell one page each."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from controller.core.ports.host_agents import ConnectedQp, HostReport

MOST_QPS = 100_000
"""Of a host, whatever its agent tells."""


class _Heard(NamedTuple):
    """What a run of an agent has told: pages by their numbers."""

    run: str | None
    pages: list[tuple[ConnectedQp, ...] | None]


class HostQps:
    """The pages of each host. A page that is told again takes the place of what it was."""

    def __init__(self) -> None:
        """Begin without pages."""
        self._heard: dict[str, _Heard] = {}

    def whole(self, host: str, report: HostReport) -> HostReport:
        """Return a report with all open QPs; with none as long as a page has not been told yet."""
        ports = report.ports
        if ports is None or ports.qps is None or ports.qps_pages == 1:
            self._heard.pop(host, None)
            return report
        heard = self._heard.get(host)
        if heard is None or heard.run != report.run or len(heard.pages) != ports.qps_pages:
            heard = self._heard[host] = _Heard(report.run, [None] * ports.qps_pages)
        heard.pages[ports.qps_page] = ports.qps
        known = [page for page in heard.pages if page is not None]
        if sum(map(len, known)) > MOST_QPS:
            del self._heard[host]
            known = []
        qps = tuple(row for page in known for row in page) if len(known) == ports.qps_pages else None
        return dataclasses.replace(report, ports=dataclasses.replace(ports, qps=qps))
