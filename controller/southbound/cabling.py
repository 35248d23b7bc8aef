"""The observed Fabric, derived from the network state, and deviations of its cabling from the intended one."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from controller.model.clos import SPINE_DPID
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.network_state import Location, NetworkState, PortId
from controller.southbound.findings import EXTRA_SWITCH, MISSING_SWITCH, Finding, clash_findings
from controller.southbound.intended_hosts import IntendedHosts
from controller.southbound.speeds import with_speeds


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
            and all(finding.kind != "missing switch" for finding in self.findings)
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
    Without: switches that have hosts are leaves, those cabled to leaves are spines. What was there ``before`` and is
    gone counts as down, and keeps its index: indices of hosts and path classes hold while the controller runs.
    """
    if intended is not None:
        return _against(intended, observed, before)
    return _discovered(observed, before, host_gbps, uplink_gbps)


def _against(intended: Fabric, observed: NetworkState, before: Fabric | None) -> Survey:
    findings: list[Finding] = []
    known = intended.switch_by_dpid
    for dpid in sorted(observed.switches - known.keys()):
        findings.append(Finding(EXTRA_SWITCH, f"{dpid:#x}", f"switch {dpid:#x} is connected and not intended"))
    for switch in (*intended.leaves, *intended.spines):
        if switch.dpid not in observed.switches:
            findings.append(Finding(MISSING_SWITCH, switch.name, f"{switch.name} is not connected"))
    places = _places(intended)
    found, extra = _elsewhere(intended, observed, places)
    cables, missing, unconfirmed = _place_cables(intended, places, observed, found, before)
    for (leaf, spine), rest in found.items():
        extra += [(leaf, spine)] * len(rest)
    findings += _cable_findings(intended, observed, missing, extra)
    hosts, host_findings, unplaced = _place_hosts(intended, places.hosts, observed, before)
    findings += host_findings
    fabric = dataclasses.replace(intended, cables=tuple(cables), hosts=tuple(hosts))
    real = with_speeds(fabric, observed.gbps, at_most=True)
    findings += _slow(fabric, real)
    # The same object for the same fabric: it keeps its tables, and nothing is derived from it again.
    return Survey(before if before == real else real, tuple(findings), tuple(unplaced), unconfirmed)


def _slow(fabric: Fabric, real: Fabric) -> Iterable[Finding]:
    if fabric is real:
        return
    for name, cable, found in zip(fabric.cable_names, fabric.cables, real.cables, strict=True):
        if found.gbps != cable.gbps:
            text = f"{name} runs at {found.gbps:g} Gbit/s, it should at {cable.gbps:g}"
            yield Finding("slow", name, text)
    for host, seen in zip(fabric.hosts, real.hosts, strict=True):
        if seen.gbps != host.gbps:
            text = f"the link of {host.name} runs at {seen.gbps:g} Gbit/s, it should at {host.gbps:g}"
            yield Finding("slow", host.name, text)


class _Places:
    """The ports of everything in a fabric file; they do not change with the network.

    Attributes:
        ends: [C] both ends of each cable, the leaf's first; ``None``: the file does not name both.
        peers: the other end of each port that the file gives to a cable.
        hosts: where each host is allowed to be.
    """

    def __init__(self, intended: Fabric) -> None:
        dpid = self.dpid = {switch.name: switch.dpid for switch in (*intended.leaves, *intended.spines)}
        self.ends = [
            (PortId(dpid[cable.leaf], cable.leaf_port), PortId(dpid[cable.spine], cable.spine_port))
            if cable.leaf_port is not None and cable.spine_port is not None
            else None
            for cable in intended.cables
        ]
        self.peers = dict(ends for ends in self.ends if ends is not None)
        self.peers.update([ends[::-1] for ends in self.ends if ends is not None])
        self.hosts = IntendedHosts.of(intended)


_newest_places: tuple[Fabric, _Places] | None = None


def _places(intended: Fabric) -> _Places:
    """Return the places, computed once for a file. Safe for threads: each sees a complete answer or none."""
    global _newest_places
    newest = _newest_places
    if newest is None or newest[0] is not intended:
        newest = _newest_places = intended, _Places(intended)
    return newest[1]


Found = dict[tuple[str, str], list[tuple[int, int]]]
"""By leaf and spine: the ports of cables that are there, in order."""


def _elsewhere(intended: Fabric, observed: NetworkState, places: _Places) -> tuple[Found, list[tuple[str, str]]]:
    """Return cables that are not where the file has one: those of a leaf and a spine, and others by their ends' names.

    Nearly all cables of a large fabric are where they belong; these are passed over by one comparison.
    """
    known, peers = intended.switch_by_dpid, places.peers
    found: Found = defaultdict(list)
    extra: list[tuple[str, str]] = []
    strange = {a: b for a, b in observed.links.items() if peers.get(a) != b}
    for a, b in observed.cables(strange):
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
    return found, extra


def _place_cables(
    intended: Fabric, places: _Places, observed: NetworkState, found: Found, before: Fabric | None
) -> tuple[list[Cable], list[int], int]:
    """Give each intended cable a found one, its own ports first, then one of ``found`` (it is taken out).

    A cable that is not found is down where there is evidence for that, and else stays as it was ``before``.

    Returns:
        The cables; those that are missing; how many are not known to be there, nor to be missing.
    """
    cables = list(intended.cables)
    links, ports = observed.links, observed.ports
    missing, left, unconfirmed = [], [], 0
    is_moved = False
    for c, ends in enumerate(places.ends):
        if ends is not None:
            a, b = ends
            if links.get(a) == b and links.get(b) == a and ports.get(a) and ports.get(b):
                continue
        cable = cables[c]
        rest = found.get((cable.leaf, cable.spine))
        if rest:
            leaf_port, spine_port = rest.pop(0)
            cables[c] = dataclasses.replace(cable, leaf_port=leaf_port, spine_port=spine_port)
            is_moved = True
        else:
            left.append(c)
    taken = _Taken(cables, left)
    for c in left:
        cable, ends = cables[c], places.ends[c]
        last = before.cables[c] if before is not None else cable
        at_leaf, at_spine = last.leaf_port, last.spine_port
        if is_moved or ends is None or (at_leaf, at_spine) != (cable.leaf_port, cable.spine_port):
            # A port that another cable was moved to is no longer this one's.
            at_leaf, at_spine = (port if (name, port) not in taken else None for name, port in _ends(last))
            ends = _end(places.dpid[cable.leaf], at_leaf), _end(places.dpid[cable.spine], at_spine)
        stays = (at_leaf, at_spine) == (last.leaf_port, last.spine_port)
        up = cable.up and last.up and stays and not _is_down(*ends, observed)
        if stays and up == last.up and cable.gbps == last.gbps:
            cables[c] = last
        else:
            cables[c] = dataclasses.replace(last, up=up, gbps=cable.gbps, leaf_port=at_leaf, spine_port=at_spine)
        if up:
            unconfirmed += 1
        elif cable.up:
            missing.append(c)
    return cables, missing, unconfirmed


class _Taken:
    """The ports of all cables but some, computed at the first request: most fabrics never need them."""

    def __init__(self, cables: list[Cable], left: list[int]) -> None:
        self._cables, self._left = cables, left

    def __contains__(self, end: tuple[str, int | None]) -> bool:
        return end in self._ends

    @cached_property
    def _ends(self) -> set[tuple[str, int | None]]:
        lost = set(self._left)
        return {end for c, cable in enumerate(self._cables) if c not in lost for end in _ends(cable)}


def _ends(cable: Cable) -> tuple[tuple[str, int | None], tuple[str, int | None]]:
    return (cable.leaf, cable.leaf_port), (cable.spine, cable.spine_port)


def _end(dpid: int, port: int | None) -> PortId:
    return PortId(dpid, port or 0)


def _is_down(leaf: PortId, spine: PortId, observed: NetworkState) -> bool:
    """Return whether there is evidence that a cable which discovery does not show is down.

    A leaf that is not connected may still forward by the rules that it has, and only it reaches its hosts: only a port
    that
    is down at the other end counts. A spine that stays away is passed over, since there are others.
    """
    if observed.ports.get(leaf) is False or observed.ports.get(spine) is False:
        return True
    if leaf.dpid not in observed.switches:
        return False
    if spine.dpid not in observed.switches:
        # Without any link, all connections have ended; it is unlikely that all spines have failed at once.
        return not observed.starting and spine.dpid not in observed.lost and bool(observed.links)
    if not {leaf, spine} <= observed.ports.keys():
        # One of the switches has no such port.
        return not observed.starting
    if not observed.silent.isdisjoint((leaf, spine)):
        return True
    return observed.links.get(leaf, spine) != spine or observed.links.get(spine, leaf) != leaf


def _cable_findings(
    intended: Fabric, observed: NetworkState, missing: list[int], extra: list[tuple[str, str]]
) -> list[Finding]:
    findings, missing, extra = _swapped(intended, missing, extra)
    if not missing and not extra:
        return findings
    names = {switch.name: switch.dpid for switch in (*intended.leaves, *intended.spines)}
    for c in missing:
        name, cable = intended.cable_names[c], intended.cables[c]
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


def _swapped(
    intended: Fabric, missing: list[int], extra: list[tuple[str, str]]
) -> tuple[list[Finding], list[int], list[tuple[str, str]]]:
    """Find two missing cables a-x and b-y with a-y and b-x found instead: their ends were swapped.

    Return the findings, and what is missing and extra besides. Pairs are taken in the order of ``missing``.
    """
    findings: list[Finding] = []
    if not extra:
        return findings, missing, extra
    left = Counter(extra)
    spines_of, leaves_of = defaultdict(set), defaultdict(set)
    for leaf, spine in extra:
        spines_of[leaf].add(spine)
        leaves_of[spine].add(leaf)
    # Places in ``missing`` by ends, ascending; those reported as swapped are removed.
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, c in enumerate(missing):
        places[intended.cables[c].leaf, intended.cables[c].spine].append(place)
    told: set[int] = set()
    for first, c in enumerate(missing):
        a, x = intended.cables[c].leaf, intended.cables[c].spine
        if first in told:
            continue
        second = min(
            (
                places[b, y][0]
                for y in spines_of[a] if y != x and left[a, y]
                for b in leaves_of[x] if b != a and left[b, x] and places.get((b, y))
            ),
            default=None,
        )  # fmt: skip
        if second is None:
            continue
        b, y = intended.cables[missing[second]].leaf, intended.cables[missing[second]].spine
        left[a, y] -= 1
        left[b, x] -= 1
        for place, ends in ((first, (a, x)), (second, (b, y))):
            told.add(place)
            places[ends].remove(place)
        names = intended.cable_names[c], intended.cable_names[missing[second]]
        text = f"{names[0]} and {names[1]} are swapped: {a} is cabled to {y} and {b} to {x}"
        findings.append(Finding("swapped", f"{names[0]}, {names[1]}", text))
    # Of several equal ones, the first were taken.
    rest = [ends for ends in reversed(extra) if _take(left, ends)]
    return findings, [c for place, c in enumerate(missing) if place not in told], rest[::-1]


def _take(left: Counter[tuple[str, str]], ends: tuple[str, str]) -> bool:
    left[ends] -= 1
    return left[ends] >= 0


def _place_hosts(
    intended: Fabric, allowed: IntendedHosts, observed: NetworkState, before: Fabric | None
) -> tuple[list[Host], list[Finding], list[str]]:
    """Return where hosts are, and whether their links are up; those of a leaf that is not connected are as ``before``.

    A port that the file names is where its host is. Other hosts are where they were found on their leaf, at a port that
    belongs to no other host.
    """
    dpid_of = {leaf.name: leaf.dpid for leaf in intended.leaves}
    hosts, findings, unplaced = [], [], []
    taken: set[PortId] = set()
    for index, host in enumerate(intended.hosts):
        heard = observed.hosts.get(host.ip)
        at = allowed.ports.get(host.ip)
        if at is None and heard is not None and allowed.allows(host.ip, heard.at) and heard.at not in taken:
            at = heard.at
            taken.add(at)
        if heard is not None and heard.at == at and heard.mac != host.mac:
            text = f"{host.ip} answers from {heard.mac}, {host.name} should have {host.mac}"
            findings.append(Finding("other address", host.name, text))
        if at is not None and at in observed.links:
            # A rule for the host would send its packets to another switch, and they might come back.
            text = f"port {at.port} of {host.leaf} leads to a switch, and {host.name} should be there"
            findings.append(Finding("misplaced host", host.name, text))
            at = None
        port = None if at is None else at.port
        up = host.up and (at is None or observed.ports.get(at) is not False)
        if at is not None and before is not None and at.dpid not in observed.switches:
            up = up and before.hosts[index].up
        if at is None:
            unplaced.append(host.name)
        same = host.port == port and host.up == up
        hosts.append(host if same else dataclasses.replace(host, port=port, up=up))
    names = {ip: host.name for ip, host in allowed.hosts.items()}
    findings += clash_findings(observed, names, {dpid: leaf for leaf, dpid in dpid_of.items()})
    return hosts, findings, unplaced


def _discovered(observed: NetworkState, before: Fabric | None, host_gbps: float, uplink_gbps: float) -> Survey:
    findings = clash_findings(observed, {}, {leaf.dpid: leaf.name for leaf in before.leaves} if before else {})
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
    """Return the known ones in their order, with new ones behind them in ascending order."""
    return known + sorted(set(found) - set(known))


def _known_cables(
    before: Fabric | None, leaves: set[int], present: set[tuple[PortId, PortId]], observed: NetworkState, gbps: float
) -> dict[tuple[PortId, PortId], Cable]:
    """Return the earlier cables by their ends, down if known to be, without those whose ends lead elsewhere now."""
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
