"""The observed Fabric, derived from the network state, and deviations of its cabling from the intended one.

With an intended fabric, ``place_cables`` and ``place_hosts`` find its parts in the network, and ``cable_findings``
tells the deviations; without one, ``discovered_fabric`` builds the fabric from what the network shows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from operator import is_

from controller.model.fabric import Cable, Fabric, Host
from controller.model.network_state import NetworkState
from controller.model.switch_key import in_order, shown
from controller.southbound.cabling.cable_findings import cable_findings
from controller.southbound.cabling.discovered_fabric import discovered
from controller.southbound.cabling.findings import EXTRA_SWITCH, MISSING_SWITCH, Finding
from controller.southbound.cabling.place_cables import cables_elsewhere, place_cables, places_of
from controller.southbound.cabling.place_hosts import isolated_leaves, place_hosts
from controller.southbound.cabling.speeds import with_speeds


@dataclass(frozen=True)
class Survey:
    """The observed fabric (``None``: not enough is known), and the findings of the cabling check.

    Attributes:
        hosts_unplaced: names of hosts whose port is not known yet.
        unconfirmed: how many cables are taken as the file says, or as they were before, since discovery has shown
            nothing of them yet.
    """

    fabric: Fabric | None
    findings: tuple[Finding, ...]
    hosts_unplaced: tuple[str, ...] = ()
    unconfirmed: int = 0

    @property
    def matches(self) -> bool:
        """True if, with an intended fabric, no deviation from it is known."""
        return self.fabric is not None and not self.findings

    @property
    def settled(self) -> bool:
        """True if all switches are there and each cable is known to be up, or not to be."""
        return (
            self.fabric is not None
            and not self.unconfirmed
            and all(finding.kind != MISSING_SWITCH for finding in self.findings)
        )


def survey(
    intended: Fabric | None,
    observed: NetworkState,
    *,
    before: Fabric | None = None,
    host_gbps: float = 100.0,
    uplink_gbps: float = 100.0,
) -> Survey:
    """Compare, and build the fabric to plan on.

    With an intended fabric: its cables and hosts, up where the network shows them, with the real port numbers.
    Without: switches that have hosts are leaves, others follow from the cables (``discovered_layers``). What existed
    ``before`` and is missing counts as down and keeps its index: indices of hosts and path classes hold while the
    controller runs.
    """
    if intended is not None:
        return _against(intended, observed, before)
    return Survey(*discovered(observed, before, host_gbps, uplink_gbps))


def _against(intended: Fabric, observed: NetworkState, before: Fabric | None) -> Survey:
    findings: list[Finding] = []
    known = intended.switch_by_key
    for key in sorted(observed.switches - known.keys(), key=in_order):
        findings.append(
            Finding(EXTRA_SWITCH, shown(key), f"switch {shown(key)} is connected but not in the fabric file")
        )
    for switch in intended.switches:
        if switch.key not in observed.switches and switch.key not in observed.unobserved:
            findings.append(Finding(MISSING_SWITCH, switch.name, f"{switch.name} is not connected"))
    places = places_of(intended)
    elsewhere, extra = cables_elsewhere(intended, observed, places)
    cables, missing, unconfirmed = place_cables(intended, places, observed, elsewhere, before)
    for (leaf, spine), rest in elsewhere.items():
        extra += [(leaf, spine)] * len(rest)
    findings += cable_findings(intended, observed, missing, extra)
    hosts, host_findings, unplaced = place_hosts(
        intended, places.hosts, observed, before, isolated_leaves(intended, cables, observed)
    )
    findings += host_findings
    fabric = _with_parts(intended, cables, hosts)
    real = with_speeds(fabric, observed.gbps, at_most=True)
    findings += _slow(fabric, real)
    # The same object for the same fabric: it keeps its tables, and nothing is derived from it again.
    return Survey(before if before == real else real, tuple(findings), tuple(unplaced), unconfirmed)


def _with_parts(intended: Fabric, cables: list[Cable], hosts: list[Host]) -> Fabric:
    """Return the fabric with these parts; the intended one, with all tables that it has, if they are its own."""
    if all(map(is_, cables, intended.cables)) and all(map(is_, hosts, intended.hosts)):
        return intended
    return dataclasses.replace(intended, cables=tuple(cables), hosts=tuple(hosts))


def _slow(fabric: Fabric, real: Fabric) -> Iterable[Finding]:
    if fabric is real:
        return
    for name, cable, real_cable in zip(fabric.cable_names, fabric.cables, real.cables, strict=True):
        if real_cable.gbps != cable.gbps:
            text = f"{name} runs at {real_cable.gbps:g} Gbit/s instead of {cable.gbps:g}"
            yield Finding("slow", name, text)
    for host, seen in zip(fabric.hosts, real.hosts, strict=True):
        if seen.gbps != host.gbps:
            text = f"the link of {host.name} runs at {seen.gbps:g} Gbit/s instead of {host.gbps:g}"
            yield Finding("slow", host.name, text)
