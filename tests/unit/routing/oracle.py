"""The objective a second time: exact fractions, dictionaries, no shortcuts, straight from its definition.

Ideal times of symmetric fabrics are worked out here; elsewhere they are an argument, and the filling alone is checked.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from controller.model.assignment import LOCAL, UNROUTABLE, Assignment
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic

GBIT = Fraction(8, 10**9)


def symmetric_ideal_seconds(fabric: Fabric, traffic: Traffic) -> dict[int, Fraction]:
    """A_k where all cables are alike and up: the fullest host link or fat leaf link."""
    load: dict[int, dict[object, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    width: dict[object, Fraction] = {}
    for f in range(traffic.n_flows):
        src, dst, k = int(traffic.src[f]), int(traffic.dst[f]), int(traffic.collective[f])
        gbit = int(traffic.bytes[f]) * GBIT
        ends: list[tuple[str, int | str]] = [("out", src), ("in", dst)]
        width["out", src], width["in", dst] = Fraction(fabric.hosts[src].gbps), Fraction(fabric.hosts[dst].gbps)
        a, b = fabric.hosts[src].leaf, fabric.hosts[dst].leaf
        if a != b:
            ends += [("up", a), ("down", b)]
            for way, leaf in (("up", a), ("down", b)):
                width[way, leaf] = sum((Fraction(c.gbps) for c in fabric.cables if c.lower == leaf), Fraction(0))
        for end in ends:
            load[k][end] += gbit
    return {k: max(amount / width[end] for end, amount in ends.items()) for k, ends in load.items()}


def speeds(
    fabric: Fabric, traffic: Traffic, assignment: Assignment, ideal: Mapping[int, Fraction]
) -> dict[int, Fraction]:
    """s_k of every collective in ``ideal``: progressive filling for each combination of phases, the worst taken."""
    load: dict[int, dict[int, Fraction]] = {k: defaultdict(Fraction) for k in ideal}
    for flow, path, share in zip(
        assignment.flow.tolist(), assignment.path.tolist(), assignment.share.tolist(), strict=True
    ):
        k = int(traffic.collective[flow])
        if k not in ideal:
            continue
        assert path != UNROUTABLE
        rate = int(traffic.bytes[flow]) * GBIT * Fraction(share) / ideal[k]
        assert path == LOCAL or path >= 0
        for link in fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), path):
            load[k][link] += rate
    phases: dict[str, set[int]] = defaultdict(set)
    for collective in traffic.collectives:
        phases[collective.job].add(collective.phase)
    worst: dict[int, Fraction] = {}
    for chosen in itertools.product(*(sorted(p) for p in phases.values())):
        now = dict(zip(phases, chosen, strict=True))
        active = [k for k in ideal if now[traffic.collectives[k].job] == traffic.collectives[k].phase]
        for k, level in _fill(fabric, traffic, load, active).items():
            speed = level * Fraction(traffic.collectives[k].weight)
            worst[k] = min(worst.get(k, speed), speed)
    return worst


def _fill(
    fabric: Fabric, traffic: Traffic, load: dict[int, dict[int, Fraction]], active: list[int]
) -> dict[int, Fraction]:
    level: dict[int, Fraction] = {}
    while len(level) < len(active):
        full_at: dict[int, Fraction] = {}
        for link in {link for k in active for link in load[k]}:
            weight = {k: Fraction(traffic.collectives[k].weight) for k in active}
            settled = sum((level[k] * weight[k] * load[k][link] for k in level if link in load[k]), Fraction(0))
            rising = sum((weight[k] * load[k][link] for k in active if k not in level and link in load[k]), Fraction(0))
            if rising:
                full_at[link] = (Fraction(float(fabric.link_gbps[link])) - settled) / rising
        lowest = min(full_at.values())
        for link, at in full_at.items():
            if at == lowest:
                for k in active:
                    if k not in level and load[k].get(link):
                        level[k] = lowest
    return level


def seconds_in_rounds(fabric: Fabric, traffic: Traffic) -> dict[int, Fraction]:
    """Seconds alone of each collective where all cables are alike and up: the sum of its rounds."""
    parts, of_part = _rounds(traffic)
    total: dict[int, Fraction] = defaultdict(Fraction)
    for part, seconds in symmetric_ideal_seconds(fabric, parts).items():
        total[of_part[part]] += seconds
    return total


def speeds_in_rounds(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> dict[int, Fraction]:
    """Speed of each collective there: seconds of its rounds alone over those at the worst speed of each."""
    parts, of_part = _rounds(traffic)
    ideal = symmetric_ideal_seconds(fabric, parts)
    took: dict[int, Fraction] = defaultdict(Fraction)
    for part, speed in speeds(fabric, parts, assignment, ideal).items():
        took[of_part[part]] += ideal[part] / min(speed, Fraction(1))
    return {k: seconds / took[k] for k, seconds in seconds_in_rounds(fabric, traffic).items()}


def _rounds(traffic: Traffic) -> tuple[Traffic, list[int]]:
    """Each round as a collective, of which a job sends those of the same phase and round at once; whose it is."""
    keys: list[tuple[int, int]] = []
    for f in range(traffic.n_flows):
        row = traffic.collectives[int(traffic.collective[f])]
        sequence = [number for many, number in row.rounds for _ in range(many)] or [0]
        connection = int(traffic.number[f]) // row.qps.count
        keys.append((int(traffic.collective[f]), sequence[connection % len(sequence)]))
    of_key = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    rows = [
        dataclasses.replace(traffic.collectives[k], phase=1000 * traffic.collectives[k].phase + number, rounds=())
        for k, number in of_key
    ]
    parts = dataclasses.replace(traffic, collective=np.array([of_key[key] for key in keys]), collectives=tuple(rows))
    return parts, [k for k, _ in of_key]
