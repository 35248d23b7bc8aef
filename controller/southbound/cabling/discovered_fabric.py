"""The fabric that discovery alone shows, without an intended one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.fabric_parts import PLURALS, ROLES
from controller.model.files.clos import SPINE_DPID
from controller.model.files.pod_clos import CORE_DPID
from controller.model.network_state import Location, NetworkState, PortId
from controller.model.switch_key import SwitchKey, in_order, shown
from controller.southbound.cabling.discovered_layers import DiscoveredLayers, layers_of
from controller.southbound.cabling.findings import Finding, clash_findings
from controller.southbound.cabling.place_cables import is_down
from controller.southbound.cabling.speeds import with_speeds

_FIRST_DPID = {"leaf": 0, "spine": SPINE_DPID, "aggregation": SPINE_DPID, "core": CORE_DPID}
_SHORT = {"aggregation": "agg"}


def discovered(
    observed: NetworkState, before: Fabric | None, host_gbps: float, uplink_gbps: float
) -> tuple[Fabric | None, tuple[Finding, ...]]:
    """Return the fabric (``None``: no leaf is known) and what is wrong with it.

    Args:
        observed: the network state.
        before: the earlier fabric; its parts that are gone count as down and keep their index.
        host_gbps: the capacity of each host link in Gbit/s.
        uplink_gbps: the capacity of each cable between switches in Gbit/s.
    """
    findings = clash_findings(observed, {}, {leaf.key: leaf.name for leaf in before.leaves} if before else {})
    edge = {ip: place for ip, place in observed.hosts.items() if place.at not in observed.links}
    leaves = _in_order([leaf.key for leaf in before.leaves] if before else [], (p.at.switch for p in edge.values()))
    if not leaves:
        return None, tuple(findings)
    present = observed.cables()
    known = _known_cables(before, present, observed)
    inferred = layers_of(leaves, ((a.switch, b.switch) for a, b in (*known, *present)))
    layers = _Layers(leaves, inferred, before)
    cables = {layers.upwards(*ends): up for ends, up in (*known.items(), *((ends, True) for ends in present))}
    ordered = []
    for (a, b), up in cables.items():
        wrong = layers.wrong(a, b)
        if wrong and up:
            findings.append(wrong)
        if not wrong and layers.joins(a, b):
            names = layers.name[a.switch], layers.name[b.switch]
            ordered.append(Cable(*names, uplink_gbps, up=up, lower_port=a.port, upper_port=b.port))
    wired = {cable.lower for cable in ordered}
    for key in leaves:
        if layers.name[key] not in wired and len(leaves) > 1:
            text = f"{layers.name[key]} has hosts and no uplink"
            findings.append(Finding("leaf without uplinks", layers.name[key], text))
    for key in sorted(inferred.unknown, key=in_order):
        text = f"switch {shown(key)} is a core or a leaf without hosts, and not used until hosts or a fabric file tell"
        findings.append(Finding("unknown layer", shown(key), text))
    hosts = {host.ip: dataclasses.replace(host, up=False, gbps=host_gbps) for host in (before.hosts if before else ())}
    hosts.update((ip, _heard_host(ip, place, host_gbps, observed)) for ip, place in edge.items())
    fabric = Fabric(layers.switches, tuple(hosts.values()), tuple(ordered))
    return with_speeds(fabric, observed.gbps, at_most=False), tuple(findings)


class _Layers:
    """The switches of each layer in their order, with their names, and the cables between them that rules can use."""

    def __init__(self, leaves: list[SwitchKey], inferred: DiscoveredLayers, before: Fabric | None) -> None:
        """Order the switches: those that were known before come first."""
        earlier = [switch.key for layer in before.layers[1:] for switch in layer] if before else []
        middle = inferred.middle.union(key for key in earlier if key not in inferred.cores) - set(leaves)
        above = (middle, inferred.cores) if inferred.cores else (middle,)
        self._keys = [leaves, *(_in_order([key for key in earlier if key in own], own) for own in above)]
        self.roles = ROLES[len(self._keys)]
        self._layer = {key: layer for layer, keys in enumerate(self._keys) for key in keys}
        self.name = {key: _name(self.roles[layer], key) for key, layer in self._layer.items()}
        self.switches = tuple(tuple(Switch(self.name[key], key) for key in keys) for keys in self._keys)
        self._pod = inferred.pod
        self._first: dict[tuple[SwitchKey, SwitchKey], PortId] = {}

    def upwards(self, a: PortId, b: PortId) -> tuple[PortId, PortId]:
        """Return the two ends of a cable, that of the lower layer first."""
        above = len(self._keys)
        return (b, a) if self._layer.get(a.switch, above) > self._layer.get(b.switch, above) else (a, b)

    def joins(self, a: PortId, b: PortId) -> bool:
        """Return whether a cable joins a layer with the next one."""
        return self._layer.get(b.switch) == self._layer.get(a.switch, len(self._keys)) + 1

    def wrong(self, a: PortId, b: PortId) -> Finding | None:
        """Return why a cable between switches of known layers is not used; ``None``: it is, or a layer is not known."""
        lower, upper = self._layer.get(a.switch), self._layer.get(b.switch)
        if lower is None or upper is None:
            return None
        if lower == upper:
            kind, why = f"link between {PLURALS[self.roles[lower]]}", f"connect two {PLURALS[self.roles[lower]]}"
        elif len(self._keys) == 2:
            return None
        elif lower == 0 and self._first.setdefault((a.switch, b.switch), a) != a:
            kind, why = "parallel link", "connect a leaf and an aggregation switch that another cable connects"
        elif lower == 1 and self._first.setdefault((self._pod.get(a.switch, a.switch), b.switch), a).switch != a.switch:
            kind, why = "second link to a pod", "connect a core to another aggregation switch of a pod"
        else:
            return None
        text = f"{self.name[a.switch]} port {a.port} and {self.name[b.switch]} port {b.port} {why}: not used"
        return Finding(kind, f"{shown(a.switch)}-{shown(b.switch)}", text)


def _in_order(known: list[SwitchKey], switches: Iterable[SwitchKey]) -> list[SwitchKey]:
    """Return the known ones in their order, with new ones behind them in ascending order."""
    return known + sorted(set(switches) - set(known), key=in_order)


def _known_cables(
    before: Fabric | None, present: list[tuple[PortId, PortId]], observed: NetworkState
) -> dict[tuple[PortId, PortId], bool]:
    """Return the ends of the earlier cables and whether they are up, without those whose ends lead elsewhere now."""
    if before is None:
        return {}
    key = {switch.name: switch.key for switch in before.switches}
    there = {frozenset(ends) for ends in present}
    known = {}
    for cable, tier in zip(before.cables, before.cable_tier.tolist(), strict=True):
        if cable.lower_port is None or cable.upper_port is None:
            continue
        ends = PortId(key[cable.lower], cable.lower_port), PortId(key[cable.upper], cable.upper_port)
        known[ends] = frozenset(ends) in there or (cable.up and not is_down(*ends, observed, of_leaf=tier == 0))
    # An end that is taken by another cable now was moved; the cable that had it before no longer exists.
    taken = {port for ends in present for port in ends}
    return {ends: up for ends, up in known.items() if frozenset(ends) in there or taken.isdisjoint(ends)}


def _heard_host(ip: str, place: Location, gbps: float, observed: NetworkState) -> Host:
    return Host(
        name=ip,
        leaf=_name("leaf", place.at.switch),
        gbps=gbps,
        ip=ip,
        mac=place.mac,
        server=ip,
        port=place.at.port,
        up=observed.ports.get(place.at) is not False,
    )


def _name(role: str, key: SwitchKey) -> str:
    """Return the conventional name of a switch (``clos``, ``pod_clos``), or one with the whole datapath id."""
    if isinstance(key, str):
        return key
    number = key - _FIRST_DPID[role]
    return f"{_SHORT.get(role, role)}{number}" if 0 < number < SPINE_DPID else f"{_SHORT.get(role, role)}-{key:x}"
