"""The fabric that discovery alone shows, without an intended one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from controller.model.clos import SPINE_DPID
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.network_state import Location, NetworkState, PortId
from controller.southbound.findings import Finding, clash_findings
from controller.southbound.place_cables import is_down
from controller.southbound.speeds import with_speeds


def discovered(
    observed: NetworkState, before: Fabric | None, host_gbps: float, uplink_gbps: float
) -> tuple[Fabric | None, tuple[Finding, ...]]:
    """Return the fabric (``None``: no leaf is known) and what is wrong with it.

    Args:
        observed: the network state.
        before: the earlier fabric; its parts that are gone count as down and keep their index.
        host_gbps: the capacity of each host link in Gbit/s.
        uplink_gbps: the capacity of each leaf-spine cable in Gbit/s.
    """
    findings = clash_findings(observed, {}, {leaf.dpid: leaf.name for leaf in before.leaves} if before else {})
    edge = {ip: place for ip, place in observed.hosts.items() if place.at not in observed.links}
    leaves = _in_order([leaf.dpid for leaf in before.leaves] if before else [], (p.at.dpid for p in edge.values()))
    if not leaves:
        return None, tuple(findings)
    cables: dict[tuple[PortId, PortId], Cable] = {}
    for a, b in observed.cables():
        if a.dpid not in leaves:
            a, b = b, a
        if a.dpid in leaves and b.dpid in leaves:
            text = f"{_name('leaf', a.dpid)} port {a.port} and {_name('leaf', b.dpid)} port {b.port} connect two leaves"
            findings.append(Finding("link between leaves", f"{a.dpid:#x}-{b.dpid:#x}", f"{text}: not used"))
        elif a.dpid in leaves:
            names = _name("leaf", a.dpid), _name("spine", b.dpid)
            cables[a, b] = Cable(*names, uplink_gbps, lower_port=a.port, upper_port=b.port)
    known = _known_cables(before, set(leaves), set(cables), observed, uplink_gbps)
    spines = _in_order([spine.dpid for spine in before.spines] if before else [], (b.dpid for _, b in cables))
    spines = [dpid for dpid in spines if dpid not in leaves]
    ordered = [cables.pop(ends, last) for ends, last in known.items()] + list(cables.values())
    wired = {cable.lower for cable in ordered}
    for dpid in leaves:
        if _name("leaf", dpid) not in wired and len(leaves) > 1:
            text = f"{_name('leaf', dpid)} has hosts and no uplink"
            findings.append(Finding("leaf without uplinks", _name("leaf", dpid), text))
    hosts = {host.ip: dataclasses.replace(host, up=False, gbps=host_gbps) for host in (before.hosts if before else ())}
    hosts.update((ip, _heard_host(ip, place, host_gbps, observed)) for ip, place in edge.items())
    fabric = Fabric(
        (
            tuple(Switch(_name("leaf", dpid), dpid) for dpid in leaves),
            tuple(Switch(_name("spine", dpid), dpid) for dpid in spines),
        ),
        tuple(hosts.values()),
        tuple(ordered),
    )
    return with_speeds(fabric, observed.gbps, at_most=False), tuple(findings)


def _in_order(known: list[int], found: Iterable[int]) -> list[int]:
    """Return the known ones in their order, with new ones behind them in ascending order."""
    return known + sorted(set(found) - set(known))


def _known_cables(
    before: Fabric | None, leaves: set[int], present: set[tuple[PortId, PortId]], observed: NetworkState, gbps: float
) -> dict[tuple[PortId, PortId], Cable]:
    """Return the earlier cables by their ends, down if known to be, without those whose ends lead elsewhere now."""
    if before is None:
        return {}
    dpid = {switch.name: switch.dpid for switch in before.switches}
    known = {}
    for cable in before.cables:
        if cable.lower_port is None or cable.upper_port is None or dpid[cable.upper] in leaves:
            continue
        ends = PortId(dpid[cable.lower], cable.lower_port), PortId(dpid[cable.upper], cable.upper_port)
        known[ends] = dataclasses.replace(cable, up=cable.up and not is_down(*ends, observed), gbps=gbps)
    # An end that is taken by another cable now was moved; the cable that had it before no longer exists.
    taken = {port for ends in present for port in ends}
    return {ends: cable for ends, cable in known.items() if ends in present or taken.isdisjoint(ends)}


def _heard_host(ip: str, place: Location, gbps: float, observed: NetworkState) -> Host:
    return Host(
        name=ip,
        leaf=_name("leaf", place.at.dpid),
        gbps=gbps,
        ip=ip,
        mac=place.mac,
        server=ip,
        port=place.at.port,
        up=observed.ports.get(place.at) is not False,
    )


def _name(role: str, dpid: int) -> str:
    number = dpid - SPINE_DPID if role == "spine" else dpid
    return f"{role}{number}" if 0 < number < SPINE_DPID else f"{role}-{dpid:x}"
