"""Poller of the switches' counters, which spreads the requests evenly over a period.

Each switch has at most one outstanding request. If a switch has not answered when its turn comes again, the poll is
skipped and counted, since more requests would only slow the switch down. Replies are decoded off the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.southbound.limits import paced_rounds
from controller.southbound.limits.paced_rounds import PacedRounds, Round
from controller.southbound.openflow.enforcing import messages
from controller.southbound.openflow.enforcing.request_channel import NotSupported, RequestChannel, SwitchGone
from controller.telemetry.counters import SwitchCounters
from controller.telemetry.decoding import FlowCounts, group_counts, port_counts
from controller.telemetry.instruments import Instruments
from controller.telemetry.port_rates import Readings

LOG = logging.getLogger("fairspine.telemetry")


class PollerSurroundings(paced_rounds.World, Protocol):
    """The runtime functions that the poller uses."""

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function off the event loop, block the calling task until it returns, and return its result."""

    def rest(self) -> None:
        """Yield the interpreter to other threads; called in offloaded work."""


@dataclass
class _Polled:
    """State of one switch connection that is kept between polls."""

    exchange: RequestChannel
    flows: FlowCounts
    busy: bool = False
    unsupported: set[str] = field(default_factory=set)
    failed: str = ""


class Poller:
    """Task that polls the switches and adds the results to ``Readings``."""

    def __init__(
        self,
        world: PollerSurroundings,
        exchanges: Callable[[], Mapping[int, RequestChannel]],
        readings: Readings,
        instruments: Instruments,
        *,
        period: float,
        name: Callable[[int], str],
    ) -> None:
        """Prepare the poller without starting it.

        Args:
            world: clock, tasks and threads.
            exchanges: returns the channels of the connected switches by datapath id.
            readings: where results are added.
            instruments: where polls are counted.
            period: seconds between two polls of a switch; 0 disables polling.
            name: returns the display name of a switch by its datapath id.
        """
        self._world, self._exchanges, self._name = world, exchanges, name
        self._readings, self._instruments, self.period = readings, instruments, period
        self._polled: dict[int, _Polled] = {}
        self._rounds = PacedRounds(
            world, LOG, "polling", begin=lambda: Round(self._connected(), self.period), turn=self._turn
        )

    def start(self) -> None:
        """Start polling; does nothing if the period is 0."""
        if self.period > 0:
            self._rounds.start()

    def stop(self) -> None:
        """Stop polling before the next switch."""
        self._rounds.stop()

    def _connected(self) -> Sequence[int]:
        """Return the switches of the next round, and drop the state of those that have disconnected."""
        exchanges = self._exchanges()
        for dpid, polled in list(self._polled.items()):
            if exchanges.get(dpid) is not polled.exchange:
                self.forget(dpid)
        for dpid, exchange in exchanges.items():
            self._polled.setdefault(dpid, _Polled(exchange, FlowCounts(self._world.rest)))
        return sorted(exchanges)

    def forget(self, dpid: int) -> None:
        """Drop the state and readings of a switch whose connection has ended."""
        self._polled.pop(dpid, None)
        self._readings.forget(dpid)

    def _turn(self, dpid: int) -> None:
        polled = self._polled.get(dpid)
        if polled is None:
            return
        if polled.busy:
            self._instruments.poll_skipped()
            return
        polled.busy = True
        self._world.spawn(lambda: self._poll(dpid, polled))

    def _poll(self, dpid: int, polled: _Polled) -> None:
        began = self._world.clock()
        failed = ""
        try:
            count = self._ask(dpid, polled)
            if self._polled.get(dpid) is polled:
                self._readings.add(count)
                self._instruments.polled(self._world.clock() - began)
        except (SwitchGone, ValueError) as error:
            failed = str(error)
        except Exception as error:
            failed = f"{type(error).__name__}: {error}"
            if failed != polled.failed:
                LOG.exception("%s could not be polled", self._name(dpid))
        finally:
            polled.busy = False
        # A switch that has disconnected is not reported here.
        if failed and self._polled.get(dpid) is polled:
            self._instruments.poll_failed()
            if failed != polled.failed:
                LOG.warning("%s: no counters: %s", self._name(dpid), failed)
        polled.failed = failed

    def _ask(self, dpid: int, polled: _Polled) -> SwitchCounters:
        """Read the counters of a switch once.

        Raises:
            SwitchGone: there was no answer, or an incomplete one.
            ValueError: the answer is malformed.
        """
        exchange = polled.exchange
        ports = exchange.ask_raw(messages.count_ports(exchange.datapath))
        at = self._world.clock()
        flows = self._if_supported(dpid, polled, "flow", messages.count_flows)
        groups = self._if_supported(dpid, polled, "group", messages.count_groups)
        count: SwitchCounters = self._world.offload(_decoded, dpid, at, ports, flows, groups, polled.flows)
        return count

    def _if_supported(self, dpid: int, polled: _Polled, what: str, request: Callable[[Any], Any]) -> list[bytes]:
        """Return the answer to an optional request; a switch that refuses it is not asked again."""
        if what in polled.unsupported:
            return []
        try:
            return polled.exchange.ask_raw(request(polled.exchange.datapath))
        except NotSupported:
            polled.unsupported.add(what)
            LOG.warning("%s does not report %s counters", self._name(dpid), what)
            return []


def _decoded(
    dpid: int, at: float, ports: list[bytes], flows: list[bytes], groups: list[bytes], decoder: FlowCounts
) -> SwitchCounters:
    return SwitchCounters(dpid, at, port_counts(ports), decoder.read(flows), group_counts(groups))
