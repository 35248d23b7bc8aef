"""Rules by which the switches themselves keep floods from hosts away from the controller.

Every rule that sends packets to the controller has a meter where the switch has meters: one for ARP, and a separate one
for discovery packets, so that a flood of one kind cannot displace the other. Discovery packets from ports that belong
to hosts are dropped (and counted) at once: a host has no reason to send any.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from controller.southbound.discovery import lldp
from controller.southbound.rules.rule import Rule, RuleKey, match
from controller.southbound.rules.rule_set import SwitchRules

HOST_DISCOVERY = 65001
"""Priority of the rules that drop discovery packets from hosts, above the rule that brings the others here."""

METER_BASE, METER_MASK = 0xFA00, 0xFFFFFF00
"""Meters carry no cookie: ours are those whose id begins so."""


class Meter(NamedTuple):
    """Drops packets above a rate in packets a second; ``burst``: number of packets allowed at once."""

    id: int
    per_second: int
    burst: int


ARP_METER = Meter(METER_BASE | 1, 300, 300)
"""ARP of all ports of a switch. Probes are answered by far less (``probes_per_second``, over all switches)."""

DISCOVERY_METER = Meter(METER_BASE | 2, 2000, 2000)
"""Discovery packets of all ports of a switch: some a second of each, and of all ports at once after a start."""

METERS = {meter.id: meter for meter in (ARP_METER, DISCOVERY_METER)}


@lru_cache(maxsize=4096)
def guards(ports: tuple[int, ...]) -> Mapping[RuleKey, Rule]:
    """Return the rules that drop discovery packets from these ports, which belong to hosts.

    They are one object for all leaves with hosts at the same ports.
    """
    rules = [Rule(0, HOST_DISCOVERY, match(eth_type=lldp.ETHERTYPE, in_port=port)) for port in ports]
    return {rule.key: rule for rule in rules}


def unmetered(want: SwitchRules) -> SwitchRules:
    """Return the same rules for a switch without meters."""
    plain = {key: rule._replace(meter=None) for key, rule in want.rules.items() if rule.meter is not None}
    return SwitchRules({**want.rules, **plain}, want.groups) if plain else want
