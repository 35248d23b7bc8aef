"""Asks the switches for their counters, one after the other, evenly over a period.

No switch has more than one request outstanding. One that has not answered when its turn comes again is passed over and
counted: asking it more often would only make it slower. Replies are decoded off the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.southbound.openflow import messages
from controller.southbound.openflow.exchange import Exchange, NotSupported, SwitchGone
from controller.telemetry.counts import SwitchCount
from controller.telemetry.decoding import FlowCounts, group_counts, port_counts
from controller.telemetry.instruments import Instruments
from controller.telemetry.readings import Readings

LOG = logging.getLogger("fairspine.telemetry")

IDLE_SECONDS = 0.2
"""Between two looks for switches while none is connected."""


class World(Protocol):
    """What the poller needs of its surroundings."""

    def spawn(self, task: Callable[[], None]) -> None:
        """Run a task beside the others."""

    def sleep(self, seconds: float) -> None:
        """Block the calling task."""

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function off the event loop, block the calling task meanwhile."""

    def rest(self) -> None:
        """Let others have the interpreter; called in offloaded work."""

    def clock(self) -> float:
        """Seconds that only ever grow."""


@dataclass
class _Polled:
    """One connection: what is remembered of it from poll to poll."""

    exchange: Exchange
    flows: FlowCounts
    busy: bool = False
    unsupported: set[str] = field(default_factory=set)
    failed: str = ""


class Poller:
    """The task that fills ``Readings``."""

    def __init__(
        self,
        world: World,
        exchanges: Callable[[], Mapping[int, Exchange]],
        readings: Readings,
        instruments: Instruments,
        *,
        period: float,
        name: Callable[[int], str],
    ) -> None:
        """
        Args:
            exchanges: of the switches that are connected now, by datapath id.
            period: seconds between two polls of a switch; 0: nothing is polled.
            name: of a switch, for people.
        """
        self._world, self._exchanges, self._name = world, exchanges, name
        self._readings, self._instruments, self.period = readings, instruments, period
        self._polled: dict[int, _Polled] = {}
        self._running = False

    def start(self) -> None:
        """Begin to poll."""
        if self.period > 0:
            self._running = True
            self._world.spawn(self._run)

    def stop(self) -> None:
        """End with the next switch."""
        self._running = False

    def _run(self) -> None:
        while self._running:
            began = self._world.clock()
            dpids = self._connected()
            for number, dpid in enumerate(dpids):
                self._wait_until(began + number * self.period / len(dpids))
                if not self._running:
                    return
                self._turn(dpid)
            self._wait_until(began + (self.period if dpids else min(self.period, IDLE_SECONDS)))

    def _wait_until(self, moment: float) -> None:
        # At least once around: where polling takes longer than its period, it must not starve the others.
        self._world.sleep(max(moment - self._world.clock(), 0.0))

    def _connected(self) -> Sequence[int]:
        """The switches of the next round; what was known of those that have gone is forgotten."""
        exchanges = self._exchanges()
        for dpid, polled in list(self._polled.items()):
            if exchanges.get(dpid) is not polled.exchange:
                self.forget(dpid)
        for dpid, exchange in exchanges.items():
            self._polled.setdefault(dpid, _Polled(exchange, FlowCounts(self._world.rest)))
        return sorted(exchanges)

    def forget(self, dpid: int) -> None:
        """A connection has ended."""
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
            LOG.exception("%s could not be polled", self._name(dpid))
            failed = f"{type(error).__name__}: {error}"
        finally:
            polled.busy = False
        # Whoever has gone need not be complained of.
        if failed and self._polled.get(dpid) is polled:
            self._instruments.poll_failed()
            if failed != polled.failed:
                LOG.warning("%s: no counters: %s", self._name(dpid), failed)
        polled.failed = failed

    def _ask(self, dpid: int, polled: _Polled) -> SwitchCount:
        """One reading.

        Raises:
            SwitchGone: no (complete) answer.
            ValueError: an answer that is none.
        """
        exchange = polled.exchange
        ports = exchange.ask_raw(messages.count_ports(exchange.datapath))
        at = self._world.clock()
        flows = self._if_supported(dpid, polled, "flow", messages.count_flows)
        groups = self._if_supported(dpid, polled, "group", messages.count_groups)
        count: SwitchCount = self._world.offload(_decoded, dpid, at, ports, flows, groups, polled.flows)
        return count

    def _if_supported(
        self, dpid: int, polled: _Polled, what: str, request: Callable[[Any], Any]
    ) -> list[bytes]:  # fmt: skip
        """The answer to a request that a switch need not know; one that refuses is not asked again."""
        if what in polled.unsupported:
            return []
        try:
            return polled.exchange.ask_raw(request(polled.exchange.datapath))
        except NotSupported:
            polled.unsupported.add(what)
            LOG.warning("%s has no %s counters to tell", self._name(dpid), what)
            return []


def _decoded(
    dpid: int, at: float, ports: list[bytes], flows: list[bytes], groups: list[bytes], decoder: FlowCounts
) -> SwitchCount:  # fmt: skip
    return SwitchCount(dpid, at, port_counts(ports), decoder.read(flows), group_counts(groups))
