"""From what the network shows to the Fabric that is planned on, and what is cabled otherwise than intended."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.observed import Location, Observed, PortId
from controller.southbound.speeds import with_speeds

SPINE_DPID = 65536
"""By convention leaf i has datapath id i and spine j has 65536 + j."""


@dataclass(frozen=True)
class Finding:
    """One difference between the intended and the real cabling: its kind, whom it is about, and a sentence."""

    kind: str
    subject: str
    text: str


@dataclass(frozen=True)
class Survey:
    """The fabric as it is now (``None``: not enough is known), and the findings of the cabling check.

    ``matches``: with an intended fabric, everything is as intended; ``hosts_unplaced`` names hosts whose port nobody
    knows yet.
    """

    fabric: Fabric | None
    findings: tuple[Finding, ...]
    hosts_unplaced: tuple[str, ...] = ()

    @property
    def matches(self) -> bool:
        return self.fabric is not None and not self.findings


def survey(
    intended: Fabric | None,
    observed: Observed,
    *,
    before: Fabric | None = None,
    host_gbps: float = 100.0,
    uplink_gbps: float = 100.0,
) -> Survey:
    """Compare, and build the fabric to plan on.

    With an intended fabric: its cables and hosts, up where the network shows them, with the real port numbers.
    Without: switches that have hosts are leaves, those cabled to leaves are spines. What was there ``before`` and is
    gone counts as down, and keeps its place: indices of hosts and path classes hold while the controller runs.
    """
    if intended is not None:
        return _against(intended, observed, before)
    return _discovered(observed, before, host_gbps, uplink_gbps)


def _against(intended: Fabric, observed: Observed, before: Fabric | None) -> Survey:
    findings: list[Finding] = []
    known = intended.switch_by_dpid
    for dpid in sorted(observed.switches - known.keys()):
        findings.append(Finding("extra switch", f"{dpid:#x}", f"switch {dpid:#x} is connected and not intended"))
    for switch in (*intended.leaves, *intended.spines):
        if switch.dpid not in observed.switches:
            findings.append(Finding("missing switch", switch.name, f"{switch.name} is not connected"))
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    extra: list[tuple[str, str]] = []
    for a, b in observed.cables():
        if a.dpid not in known or b.dpid not in known:
            continue
        ends = ((known[a.dpid].name, a.port), (known[b.dpid].name, b.port))
        if ends[0][0] in intended.spine_index:
            ends = (ends[1], ends[0])
        (leaf, leaf_port), (spine, spine_port) = ends
        if leaf in intended.leaf_index and spine in intended.spine_index:
            found[leaf, spine].append((leaf_port, spine_port))
        else:
            extra.append((leaf, spine))
    cables, missing = _place_cables(intended, observed, found, before)
    for (leaf, spine), rest in found.items():
        extra += [(leaf, spine)] * len(rest)
    findings += _cable_findings(intended, observed, missing, extra)
    hosts, host_findings, unplaced = _place_hosts(intended, observed, before)
    findings += host_findings
    findings += _duplicates(observed)
    fabric = dataclasses.replace(intended, cables=tuple(cables), hosts=tuple(hosts))
    real = with_speeds(fabric, observed.gbps, at_most=True)
    findings += _slow(fabric, real)
    return Survey(real, tuple(findings), tuple(unplaced))


def _slow(fabric: Fabric, real: Fabric) -> Iterable[Finding]:
    for name, cable, found in zip(fabric.cable_names, fabric.cables, real.cables, strict=True):
        if found.gbps != cable.gbps:
            text = f"{name} runs at {found.gbps:g} Gbit/s, it should at {cable.gbps:g}"
            yield Finding("slow", name, text)
    for host, seen in zip(fabric.hosts, real.hosts, strict=True):
        if seen.gbps != host.gbps:
            text = f"the link of {host.name} runs at {seen.gbps:g} Gbit/s, it should at {host.gbps:g}"
            yield Finding("slow", host.name, text)


def _place_cables(
    intended: Fabric, observed: Observed, found: dict[tuple[str, str], list[tuple[int, int]]], before: Fabric | None
) -> tuple[list[Cable], list[int]]:
    """Give each intended cable a found one (taken out of ``found``), its own ports first. Returns the missing, too.

    A missing cable is down, but where there is no evidence for that yet it stays as it was ``before``.
    """
    cables = list(intended.cables)
    waiting = []
    for c, cable in enumerate(cables):
        ports = (cable.leaf_port, cable.spine_port)
        if ports in found[cable.leaf, cable.spine]:
            found[cable.leaf, cable.spine].remove(ports)
        else:
            waiting.append(c)
    dpid = {switch.name: switch.dpid for switch in (*intended.leaves, *intended.spines)}
    missing, left = [], []
    for c in waiting:
        cable = cables[c]
        rest = found[cable.leaf, cable.spine]
        if rest:
            leaf_port, spine_port = rest.pop(0)
            cables[c] = dataclasses.replace(cable, leaf_port=leaf_port, spine_port=spine_port)
            continue
        if cable.up:
            missing.append(c)
        left.append(c)
    lost = set(left)
    taken = {end for c, cable in enumerate(cables) if c not in lost for end in _ends(cable)}
    for c in left:
        cable = cables[c]
        last = before.cables[c] if before is not None else cable
        # A port that another cable was moved to is no longer this one's.
        at_leaf, at_spine = (port if (name, port) not in taken else None for name, port in _ends(last))
        moved = (at_leaf, at_spine) != (last.leaf_port, last.spine_port)
        ends = (_end(dpid[cable.leaf], at_leaf), _end(dpid[cable.spine], at_spine))
        up = cable.up and last.up and not moved and not _is_down(*ends, observed)
        cables[c] = dataclasses.replace(last, up=up, gbps=cable.gbps, leaf_port=at_leaf, spine_port=at_spine)
    return cables, missing


def _ends(cable: Cable) -> tuple[tuple[str, int | None], tuple[str, int | None]]:
    return (cable.leaf, cable.leaf_port), (cable.spine, cable.spine_port)


def _end(dpid: int, port: int | None) -> PortId:
    return PortId(dpid, port or 0)


def _is_down(leaf: PortId, spine: PortId, observed: Observed) -> bool:
    """Whether there is evidence that a cable without discovery packets is down.

    A leaf that is not connected may well forward on by the rules that it has, and nothing else reaches its hosts: only
    a port that is down at the other end counts. A spine that stays away is passed over, since there are others.
    """
    if observed.ports.get(leaf) is False or observed.ports.get(spine) is False:
        return True
    if observed.starting or spine.dpid in observed.lost or leaf.dpid not in observed.switches:
        return False
    if not observed.links:
        # Not one link anywhere, with ports up: it is discovery that does not work, not every cable that broke at once.
        return False
    if spine.dpid not in observed.switches:
        return True
    return observed.young.isdisjoint((leaf.dpid, spine.dpid))


def _cable_findings(
    intended: Fabric, observed: Observed, missing: list[int], extra: list[tuple[str, str]]
) -> list[Finding]:
    findings = []
    gone = {intended.cable_names[c]: (intended.cables[c].leaf, intended.cables[c].spine) for c in missing}
    # Two missing cables a-x and b-y with a-y and b-x found instead: somebody swapped their ends.
    for first, (a, x) in list(gone.items()):
        for second, (b, y) in list(gone.items()):
            swapped = first in gone and second in gone and (a, y) in extra and (b, x) in extra and a != b and x != y
            if swapped:
                extra.remove((a, y))
                extra.remove((b, x))
                del gone[first], gone[second]
                text = f"{first} and {second} are swapped: {a} is cabled to {y} and {b} to {x}"
                findings.append(Finding("swapped", f"{first}, {second}", text))
    names = {switch.name: switch.dpid for switch in (*intended.leaves, *intended.spines)}
    cable_of = dict(zip(intended.cable_names, intended.cables, strict=True))
    for name in gone:
        cable = cable_of[name]
        if not {names[cable.leaf], names[cable.spine]} <= observed.switches:
            continue  # the missing switch is a finding of its own
        why = "no discovery packet came through"
        for switch, port in ((cable.leaf, cable.leaf_port), (cable.spine, cable.spine_port)):
            if port is not None and observed.ports.get(PortId(names[switch], port)) is False:
                flaps = PortId(names[switch], port) in observed.flapping
                why = f"port {port} of {switch} {'comes and goes too often' if flaps else 'is down'}"
        findings.append(Finding("missing", name, f"{name} is missing: {why}"))
    for a, b in extra:
        findings.append(Finding("extra", f"{a}-{b}", f"{a} and {b} are cabled and should not be"))
    return findings


def _place_hosts(
    intended: Fabric, observed: Observed, before: Fabric | None
) -> tuple[list[Host], list[Finding], list[str]]:
    """Where hosts are, and whether their links are up; of a leaf that is not connected they are as ``before``."""
    dpid_of = {leaf.name: leaf.dpid for leaf in intended.leaves}
    leaf_of = {leaf.dpid: leaf.name for leaf in intended.leaves}
    hosts, findings, unplaced = [], [], []
    for index, host in enumerate(intended.hosts):
        heard = observed.hosts.get(host.ip)
        at = PortId(dpid_of[host.leaf], host.port) if host.port is not None else None
        if heard is not None and heard.at.dpid in leaf_of:
            leaf = leaf_of[heard.at.dpid]
            if leaf != host.leaf:
                text = f"{host.name} is at {leaf} port {heard.at.port}, it should be at {host.leaf}"
                findings.append(Finding("misplaced host", host.name, text))
            if heard.mac != host.mac:
                text = f"{host.ip} answers from {heard.mac}, {host.name} should have {host.mac}"
                findings.append(Finding("other address", host.name, text))
            host = dataclasses.replace(host, leaf=leaf, port=heard.at.port)
            at = heard.at
        elif at is not None and at in observed.links:
            # Its port turned out to lead to a switch.
            host, at = dataclasses.replace(host, port=None), None
        up = host.up and (at is None or observed.ports.get(at) is not False)
        if at is not None and before is not None and at.dpid not in observed.switches:
            up = up and before.hosts[index].up
        if at is None:
            unplaced.append(host.name)
        hosts.append(dataclasses.replace(host, up=up))
    return hosts, findings, unplaced


def _duplicates(observed: Observed) -> Iterable[Finding]:
    for ip, first, second in sorted(observed.duplicates):
        yield Finding("duplicate address", ip, f"{first} and {second} both claim {ip}")


def _discovered(observed: Observed, before: Fabric | None, host_gbps: float, uplink_gbps: float) -> Survey:
    findings = list(_duplicates(observed))
    edge = {ip: place for ip, place in observed.hosts.items() if place.at not in observed.links}
    leaves = _in_order([leaf.dpid for leaf in before.leaves] if before else [], (p.at.dpid for p in edge.values()))
    if not leaves:
        return Survey(None, tuple(findings))
    cables: dict[tuple[PortId, PortId], Cable] = {}
    for a, b in observed.cables():
        if a.dpid not in leaves:
            a, b = b, a
        if a.dpid in leaves and b.dpid in leaves:
            text = f"{_name('leaf', a.dpid)} port {a.port} and {_name('leaf', b.dpid)} port {b.port} join two leaves"
            findings.append(Finding("link between leaves", f"{a.dpid:#x}-{b.dpid:#x}", f"{text}: not used"))
        elif a.dpid in leaves:
            names = _name("leaf", a.dpid), _name("spine", b.dpid)
            cables[a, b] = Cable(*names, uplink_gbps, leaf_port=a.port, spine_port=b.port)
    known = _known_cables(before, set(leaves), set(cables), observed, uplink_gbps)
    spines = _in_order([spine.dpid for spine in before.spines] if before else [], (b.dpid for _, b in cables))
    spines = [dpid for dpid in spines if dpid not in leaves]
    ordered = [cables.pop(ends, last) for ends, last in known.items()] + list(cables.values())
    wired = {cable.leaf for cable in ordered}
    for dpid in leaves:
        if _name("leaf", dpid) not in wired and len(leaves) > 1:
            text = f"{_name('leaf', dpid)} has hosts and no uplink"
            findings.append(Finding("leaf without uplinks", _name("leaf", dpid), text))
    hosts = {host.ip: dataclasses.replace(host, up=False, gbps=host_gbps) for host in (before.hosts if before else ())}
    hosts.update((ip, _heard_host(ip, place, host_gbps, observed)) for ip, place in edge.items())
    fabric = Fabric(
        tuple(Switch(_name("leaf", dpid), dpid) for dpid in leaves),
        tuple(Switch(_name("spine", dpid), dpid) for dpid in spines),
        tuple(hosts.values()),
        tuple(ordered),
    )
    return Survey(with_speeds(fabric, observed.gbps, at_most=False), tuple(findings))


def _in_order(known: list[int], found: Iterable[int]) -> list[int]:
    """The known ones where they are, new ones behind them in ascending order."""
    return known + sorted(set(found) - set(known))


def _known_cables(
    before: Fabric | None, leaves: set[int], present: set[tuple[PortId, PortId]], observed: Observed, gbps: float
) -> dict[tuple[PortId, PortId], Cable]:
    """The cables of before by their ends, down where that is known, but for those whose ends lead elsewhere now."""
    if before is None:
        return {}
    dpid = {switch.name: switch.dpid for switch in (*before.leaves, *before.spines)}
    known = {}
    for cable in before.cables:
        if cable.leaf_port is None or cable.spine_port is None or dpid[cable.spine] in leaves:
            continue
        ends = PortId(dpid[cable.leaf], cable.leaf_port), PortId(dpid[cable.spine], cable.spine_port)
        known[ends] = dataclasses.replace(cable, up=cable.up and not _is_down(*ends, observed), gbps=gbps)
    # An end that is taken by another cable now was moved; the cable that had it before no longer exists.
    taken = {port for ends in present for port in ends}
    return {ends: cable for ends, cable in known.items() if ends in present or taken.isdisjoint(ends)}


def _heard_host(ip: str, place: Location, gbps: float, observed: Observed) -> Host:
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
