"""The deviations of the cables from the intended ones: missing, extra and swapped cables."""

from __future__ import annotations

from collections import Counter, defaultdict

from controller.model.fabric import Fabric
from controller.model.network_state import NetworkState, PortId
from controller.southbound.cabling.findings import Finding


def cable_findings(
    intended: Fabric, observed: NetworkState, missing: list[int], extra: list[tuple[str, str]]
) -> list[Finding]:
    """Return what is wrong with the cables.

    Args:
        intended: the intended fabric.
        observed: the network state.
        missing: the index of each intended cable that is down.
        extra: the names of both ends of each cable that is not intended.
    """
    findings, missing, extra = swapped(intended, missing, extra)
    if not missing and not extra:
        return findings
    names = {switch.name: switch.key for switch in intended.switches}
    for c in missing:
        name, cable = intended.cable_names[c], intended.cables[c]
        if reason := observed.shown_cables.get(c):
            findings.append(Finding("missing", name, f"{name} is down: {reason}"))
            continue
        if not {names[cable.lower], names[cable.upper]} <= observed.switches:
            continue  # the missing switch is a finding of its own
        why = "discovery packets are lost"
        for switch, port in ((cable.lower, cable.lower_port), (cable.upper, cable.upper_port)):
            if port is not None and observed.ports.get(PortId(names[switch], port)) is False:
                flaps = PortId(names[switch], port) in observed.flapping
                why = f"port {port} of {switch} {'flaps' if flaps else 'is down'}"
        findings.append(Finding("missing", name, f"{name} is missing: {why}"))
    for a, b in extra:
        findings.append(
            Finding("extra", f"{a}-{b}", f"{a} and {b} are connected, but the fabric file has no such cable")
        )
    return findings


def swapped(
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
        places[intended.cables[c].lower, intended.cables[c].upper].append(place)
    explained: set[int] = set()
    for first, c in enumerate(missing):
        a, x = intended.cables[c].lower, intended.cables[c].upper
        if first in explained:
            continue
        second = min(
            (
                places[b, y][0]
                for y in spines_of[a]
                if y != x and left[a, y]
                for b in leaves_of[x]
                if b != a and left[b, x] and places.get((b, y))
            ),
            default=None,
        )
        if second is None:
            continue
        b, y = intended.cables[missing[second]].lower, intended.cables[missing[second]].upper
        left[a, y] -= 1
        left[b, x] -= 1
        for place, ends in ((first, (a, x)), (second, (b, y))):
            explained.add(place)
            places[ends].remove(place)
        names = intended.cable_names[c], intended.cable_names[missing[second]]
        text = f"{names[0]} and {names[1]} are swapped: {a} is cabled to {y} and {b} to {x}"
        findings.append(Finding("swapped", f"{names[0]}, {names[1]}", text))
    # Of several equal ones, the first were taken.
    rest = [ends for ends in reversed(extra) if _take(left, ends)]
    return findings, [c for place, c in enumerate(missing) if place not in explained], rest[::-1]


def _take(left: Counter[tuple[str, str]], ends: tuple[str, str]) -> bool:
    left[ends] -= 1
    return left[ends] >= 0
