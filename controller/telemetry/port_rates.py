"""The last two readings of each switch, and the rates of links and flows computed from them.

Port counters start at 0 when the switch starts, rule counters when the rule is installed. A rate is the difference of
two readings over the time between them; a counter that has decreased (after a restart of the switch or the port) gives
no rate for that period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from controller.model.fabric import Fabric, FloatArray
from controller.model.switch_key import SwitchKey
from controller.model.traffic import Int64Array, Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.ingress import flow_key
from controller.southbound.enforcement.port_blocks import PORT_BITS, PortBlocks, port_blocks
from controller.southbound.rules.rule import RuleKey
from controller.telemetry.counters import PortCounters, SwitchCounters

UNKNOWN = -1
"""Value of an unknown counter in arrays of counters."""

BITS_PER_BYTE, GIGA = 8, 1e9


@dataclass(frozen=True, eq=False)
class LinkRates:
    """Rates and counters of the E directed links of a fabric, by link index.

    Attributes:
        gbps: [E] rate between the last two readings of the transmitting switch (for the link from a host to its leaf:
            of the receiving leaf); NaN if not known.
        bytes, dropped, errors: [E] counters of that port since it started, ``UNKNOWN`` if not known. ``dropped`` and
            ``errors`` count transmitted packets (for links from hosts: received packets).
    """

    gbps: FloatArray
    bytes: Int64Array
    dropped: Int64Array
    errors: Int64Array

    @staticmethod
    def unknown(fabric: Fabric) -> LinkRates:
        """Return rates and counters that are all unknown."""
        none = np.full(fabric.n_links, UNKNOWN, dtype=np.int64)
        return LinkRates(np.full(fabric.n_links, np.nan), none, none.copy(), none.copy())


class _Pair(NamedTuple):
    """The newest reading of a switch, and the one before."""

    latest: SwitchCounters
    previous: SwitchCounters | None


class Readings:
    """The last two counter readings of each switch. Written on the event loop only; safe to read from any thread."""

    def __init__(self) -> None:
        """Start without readings."""
        # Replaced, never modified, so that a concurrent reader sees a consistent state.
        self._pairs: Mapping[SwitchKey, _Pair] = {}

    def add(self, count: SwitchCounters) -> None:
        """Add a reading; ignore one that is not newer than the switch's last reading."""
        known = self._pairs.get(count.switch)
        if known is not None and count.at <= known.latest.at:
            return
        self._pairs = {**self._pairs, count.switch: _Pair(count, None if known is None else known.latest)}

    def forget(self, switch: SwitchKey) -> None:
        """Drop the readings of a switch that has disconnected, since its counters may restart."""
        self._pairs = {known: pair for known, pair in self._pairs.items() if known != switch}

    def latest(self, switch: SwitchKey) -> SwitchCounters | None:
        """Return the newest reading of a switch, or ``None``."""
        pair = self._pairs.get(switch)
        return None if pair is None else pair.latest

    def previous(self, switch: SwitchKey) -> SwitchCounters | None:
        """Return the reading before the newest one, or ``None``."""
        pair = self._pairs.get(switch)
        return None if pair is None else pair.previous

    @property
    def measured(self) -> float | None:
        """Time of the newest of all readings, by their monotonic clock; ``None`` without readings."""
        return max((pair.latest.at for pair in self._pairs.values()), default=None)

    def link_rates(self, fabric: Fabric) -> LinkRates:
        """Return the rates and counters of each directed link from the two newest readings."""
        rates = LinkRates.unknown(fabric)
        pairs = self._pairs
        for link, (switch, port, receives) in enumerate(_counted_at(fabric)):
            pair = pairs.get(switch)
            now = None if pair is None or port is None else pair.latest.ports.get(port)
            if pair is None or port is None or now is None:
                continue
            octets, rates.dropped[link], rates.errors[link] = _one_way(now, receives)
            rates.bytes[link] = octets
            before = None if pair.previous is None else pair.previous.ports.get(port)
            if before is not None and pair.previous is not None:
                then, _, _ = _one_way(before, receives)
                rates.gbps[link] = _gbps(then, octets, pair.latest.at - pair.previous.at)
        return rates

    def row_rates(self, fabric: Fabric, traffic: Traffic, wire: FlowEncoding) -> FloatArray:
        """Return the rate [R] of each row of the encoding in Gbit/s; NaN if no rule counts it.

        QPs that share a rule share its rate in proportion to their planned bytes; see ``PortBlocks.parts``.
        """
        blocks = port_blocks(traffic, wire)
        leaves = [fabric.leaves[leaf].key for leaf in fabric.host_leaf[blocks.src].tolist()]
        rate = np.array([self._rule_rate(*each) for each in zip(leaves, block_keys(fabric, blocks), strict=True)])
        rates = blocks.parts(traffic.bytes[wire.flow] * wire.share)
        routed = np.flatnonzero(blocks.of_row >= 0)
        rates[routed] *= rate[blocks.of_row[routed]]
        # A switch that takes no masked ports has a rule for each.
        for row in routed[blocks.several[blocks.of_row[routed]] & np.isnan(rates[routed])].tolist():
            block, flow = int(blocks.of_row[row]), int(wire.flow[row])
            ends = (fabric.hosts[traffic.src[flow]], fabric.hosts[traffic.dst[flow]])
            key = flow_key(("ipv4_src", ends[0].ip), ("ipv4_dst", ends[1].ip), int(wire.udp_src[row]), PORT_BITS)
            rates[row] = self._rule_rate(leaves[block], key)
        return rates

    def _rule_rate(self, switch: SwitchKey, key: RuleKey) -> float:
        """Return the rate of a rule; NaN if it was not read twice."""
        pair = self._pairs.get(switch)
        if pair is None or pair.previous is None:
            return float("nan")
        now, before = pair.latest.rules.get(key), pair.previous.rules.get(key)
        if now is None or before is None:
            return float("nan")
        return _gbps(_known(before.bytes), _known(now.bytes), pair.latest.at - pair.previous.at)


def block_keys(fabric: Fabric, blocks: PortBlocks) -> list[RuleKey]:
    """Return the key [N] of each block's rule at its ingress leaf, as ``per_flow`` and ``segment_routing`` use it."""
    src = [("ipv4_src", host.ip) for host in fabric.hosts]
    dst = [("ipv4_dst", host.ip) for host in fabric.hosts]
    columns = (blocks.src, blocks.dst, blocks.port, blocks.bits)
    return [
        flow_key(src[s], dst[d], port, bits)
        for s, d, port, bits in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _counted_at(fabric: Fabric) -> list[tuple[SwitchKey, int | None, bool]]:
    """Return the switch and port that count each directed link [E], and whether as received packets."""
    key = {switch.name: switch.key for switch in fabric.switches}
    places: list[tuple[SwitchKey, int | None, bool]] = [(key[host.leaf], host.port, True) for host in fabric.hosts]
    places += [(key[host.leaf], host.port, False) for host in fabric.hosts]
    for cable in fabric.cables:
        places += [(key[cable.lower], cable.lower_port, False), (key[cable.upper], cable.upper_port, False)]
    return places


def _one_way(count: PortCounters, receives: bool) -> tuple[int, int, int]:
    """Return the bytes, dropped packets and errors of one direction."""
    if receives:
        return _known(count.rx_bytes), _known(count.rx_dropped), _known(count.rx_errors)
    return _known(count.tx_bytes), _known(count.tx_dropped), _known(count.tx_errors)


def _known(value: int) -> int:
    # Values from 2^63 are not plausible and do not fit into the arrays.
    return value if value < 2**63 else UNKNOWN


def _gbps(before: int, after: int, seconds: float) -> float:
    if before == UNKNOWN or after == UNKNOWN or after < before:
        return float("nan")
    return (after - before) * BITS_PER_BYTE / GIGA / seconds
