"""Readings as switches would give them, for the tests of traces."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from controller.model.fabric import Fabric, FloatArray
from controller.model.switch_key import SwitchKey
from controller.southbound.rules.rule_set import RuleSet
from controller.telemetry.counters import PortCounters, SwitchCounters
from controller.telemetry.fabric_snapshot import FabricSnapshot, SwitchSnapshot

NOTHING = PortCounters(0, 0, 0, 0, 0, 0, 0, 0)


def reading(
    fabric: Fabric, rules: RuleSet, *, without: Collection[str] = (), dead: Collection[tuple[str, int]] = ()
) -> FabricSnapshot:
    """Switches that hold exactly these rules; ports of cables that are down are dead."""
    down = {(switch, port) for switch, port in dead}
    for cable in fabric.cables:
        if not cable.up:
            down |= {(cable.lower, cable.lower_port or 0), (cable.upper, cable.upper_port or 0)}
    return FabricSnapshot(
        0.0,
        {
            switch.dpid: SwitchSnapshot(
                rules[switch.dpid],
                SwitchCounters(switch.dpid, 1.0),
                frozenset(port for name, port in down if name == switch.name),
            )
            for switch in fabric.switches
            if switch.name not in without
        },
    )


def counted(fabric: Fabric, link_bytes: FloatArray, at: float) -> dict[SwitchKey, SwitchCounters]:
    """Port counters of every switch, given what each directed link [E] has carried."""
    ports: dict[int, dict[int, PortCounters]] = {s.dpid: {} for s in fabric.switches}
    dpid = {switch.name: switch.dpid for switch in fabric.switches}
    many = np.round(link_bytes).astype(np.int64).tolist()
    for h, host in enumerate(fabric.hosts):
        assert host.port is not None
        ports[dpid[host.leaf]][host.port] = NOTHING._replace(rx_bytes=many[h], tx_bytes=many[fabric.n_hosts + h])
    for c, cable in enumerate(fabric.cables):
        up, down = many[fabric.first_cable_link + 2 * c : fabric.first_cable_link + 2 * c + 2]
        assert cable.lower_port is not None
        assert cable.upper_port is not None
        ports[dpid[cable.lower]][cable.lower_port] = NOTHING._replace(tx_bytes=up, rx_bytes=down)
        ports[dpid[cable.upper]][cable.upper_port] = NOTHING._replace(tx_bytes=down, rx_bytes=up)
    return {number: SwitchCounters(number, at, own) for number, own in ports.items()}
