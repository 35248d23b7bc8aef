"""htsim's topology files (``.topo``) of two and three tiers, and fabrics as such files.

The grammar is that of ``FatTreeTopology::load`` in htsim's sim/datacenter/fat_tree_topology.cpp (Broadcom/csg-htsim):
a head of ``Nodes``, ``Tiers`` and ``Podsize``, then for each tier (0 are the leaves, the last one the spines or cores)
``Tier N`` and its values, each a word in any case and a number. The first value of a word counts in htsim; here a
second one is rejected. ``Radix_Down`` and ``Radix_Up`` count cables, of which ``Bundle`` (of the upper tier) go to one
upper switch; core c has cables to aggregation switch c mod (aggregation switches of a pod) of each pod.
``Downlink_speed_Gbps`` is the speed of the cables below a tier, in both directions. ``Oversubscribed`` follows from
the rest and is only compared. Latencies and queues are not part of a fabric and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from controller.model.errors import InputError, shorten
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import from_validation_error
from controller.model.files.fabric_forms import MAX_HOSTS_PER_LEAF, ClosForm, PodClosForm
from controller.model.files.pod_clos import pod_clos
from controller.workload.importers.base import Source
from controller.workload.importers.fields import MAX_RANKS, SourceLine
from controller.workload.importers.notes import Notes
from controller.workload.importers.streams import at_line, lines

LATENCY_NS = 1000
"""Default latency of each cable, as in htsim's own leaf-spine files."""

MAX_CABLES = 1 << 22
"""Most cables of one fabric: a few numbers could describe more than memory holds."""

_HEAD = ("Nodes", "Tiers", "Podsize")
_KEPT = ("Downlink_speed_Gbps", "Radix_Up", "Radix_Down", "Bundle", "Oversubscribed")
_LEFT_OUT = ("Queue_Up", "Queue_Down", "Switch_Latency_ns", "Downlink_Latency_ns")
_SPELLING = {name.lower(): name for name in (*_HEAD, *_KEPT, *_LEFT_OUT)}
_MAX_GBPS = 1_000_000


@dataclass(frozen=True)
class Topology:
    """A fabric document (the short form), its number of hosts, and notes on ignored words."""

    document: dict[str, Any]
    nodes: int
    notes: tuple[str, ...]


@dataclass
class _Values:
    """Values of the head (tier -1) or of a tier, each with its line."""

    place: SourceLine
    values: dict[str, tuple[SourceLine, int]] = field(default_factory=dict)

    def get(self, key: str, default: int | None = None) -> int:
        if key in self.values:
            return self.values[key][1]
        if default is None:
            raise InputError(f"{key} is missing", source=self.place.source.name, field=f"line {self.place.line}")
        return default

    def error(self, key: str, reason: str) -> InputError:
        place, value = self.values.get(key, (self.place, None))
        return place.error(reason, None if value is None else f"{key} {value}")


def read_topology(source: Source) -> Topology:
    """Parse a fabric from its text.

    Raises:
        InputError: a line does not match the grammar, or numbers do not fit each other.
    """
    tiers: dict[int, _Values] = {-1: _Values(SourceLine(source, 1))}
    notes = Notes()
    current = -1
    for number, text in lines(source):
        words = text.partition("#")[0].split()
        if not words:
            continue
        place = SourceLine(source, number)
        key = _SPELLING.get(words[0].lower(), words[0])
        if len(words) != 2:
            raise place.error("a line must have a word and a number", text)
        if key.lower() == "tier":
            current = place.whole(words[1], "the tier", 0, 2)
            if current in tiers:
                raise place.error(f"tier {current} already begins in line {tiers[current].place.line}")
            tiers[current] = _Values(place)
            continue
        if key in (_HEAD if current < 0 else (*_KEPT, *_LEFT_OUT)):
            _add(tiers[current], place, key, words[1])
        else:
            notes.add("such words", f"{at_line(source, number)}: {shorten(words[0])} is unknown and left out")
    return _topology(tiers, notes.sentences())


def write_topology(fabric: Fabric, latency_ns: int = LATENCY_NS) -> str:
    """Return a fabric's topology file.

    Args:
        fabric: the fabric to write.
        latency_ns: latency of each cable in nanoseconds.

    Raises:
        InputError: the fabric is not symmetric, has NICs with several ports, or htsim's arithmetic has no room for it.
    """
    if fabric.planes.count > 1:
        raise InputError(
            f"htsim's topology files describe one network, whose hosts have one port; these NICs have "
            f"{fabric.planes.ports.shape[1]}",
            field="fabric",
            value=fabric.nic_names[0],
        )
    if len(fabric.layers) == 3:
        return _write_pods(fabric, latency_ns)
    clos = symmetric(fabric)
    return (
        f"Nodes {fabric.n_hosts}\n"
        "Tiers 2\n"
        f"Podsize {fabric.n_hosts}\n"
        "\n"
        "Tier 0\n"
        f"Downlink_speed_Gbps {clos.host_gbps}\n"
        f"Radix_Down {clos.hosts_per_leaf}\n"
        f"Radix_Up {clos.spines * clos.parallel}\n"
        f"Downlink_Latency_ns {latency_ns}\n"
        "Switch_Latency_ns 0\n"
        f"Oversubscribed {clos.oversubscribed}\n"
        "\n"
        "Tier 1\n"
        f"Downlink_speed_Gbps {clos.uplink_gbps}\n"
        f"Radix_Down {clos.leaves * clos.parallel}\n"
        f"Bundle {clos.parallel}\n"
        f"Downlink_Latency_ns {latency_ns}\n"
        "Switch_Latency_ns 0\n"
    )


def _write_pods(fabric: Fabric, latency_ns: int) -> str:
    """Return the topology file of a fabric of three layers.

    Raises:
        InputError: the fabric is not symmetric, or its parts are not in htsim's order.
    """
    per_leaf = _hosts_up(fabric)
    pods = 1 + int(fabric.pods.of_leaf.max())
    leaves, aggs = fabric.n_leaves // pods, 1 + int(fabric.pods.plane.max())
    cores, parallel = fabric.n_spines // aggs, [int(tier.number.max(initial=0)) + 1 for tier in fabric.tier_cables]
    like = pod_clos(pods, leaves, aggs, cores, per_leaf, parallel=parallel[0], core_parallel=parallel[1])
    if [len(layer) for layer in like.layers] != [len(layer) for layer in fabric.layers] or any(
        sorted(zip(one.lower.tolist(), one.upper.tolist(), strict=True))
        != sorted(zip(other.lower.tolist(), other.upper.tolist(), strict=True))
        for one, other in zip(fabric.tier_cables, like.tier_cables, strict=True)
    ):
        raise InputError(
            "htsim requires pods of the same cables, leaves and aggregation switches pod by pod, and core c at "
            f"aggregation switch c mod {aggs} of each pod",
            field="fabric",
        )
    speeds = [_speed(fabric, np.arange(fabric.first_cable_link))]
    speeds += [_speed(fabric, tier.uplink) for tier in fabric.tier_cables]
    down = [per_leaf, leaves * parallel[0], pods * parallel[1]]
    up = [aggs * parallel[0], cores * parallel[1]]
    text = f"Nodes {fabric.n_hosts}\nTiers 3\nPodsize {leaves * per_leaf}\n"
    for tier in range(3):
        text += f"\nTier {tier}\nDownlink_speed_Gbps {speeds[tier]}\nRadix_Down {down[tier]}\n"
        if tier < 2:
            text += f"Radix_Up {up[tier]}\nOversubscribed {max(1, down[tier] // up[tier])}\n"
        if tier > 0:
            text += f"Bundle {parallel[tier - 1]}\n"
        text += f"Downlink_Latency_ns {latency_ns}\nSwitch_Latency_ns 0\n"
    return text


@dataclass(frozen=True)
class Symmetric:
    """The numbers of a symmetric fabric that htsim can build."""

    spines: int
    leaves: int
    hosts_per_leaf: int
    host_gbps: int
    uplink_gbps: int
    parallel: int
    oversubscribed: int


def hosts_per_leaf(fabric: Fabric) -> int:
    """Return the number of hosts on each leaf; host i of the fabric is then node i of htsim.

    Raises:
        InputError: leaves have different numbers of hosts, or hosts are not listed leaf by leaf.
    """
    per_leaf, rest = divmod(fabric.n_hosts, fabric.n_leaves)
    if not per_leaf or rest or not np.array_equal(fabric.host_leaf, np.arange(fabric.n_hosts) // per_leaf):
        raise InputError("htsim requires the same number of hosts on each leaf, listed leaf by leaf", field="hosts")
    return per_leaf


def symmetric(fabric: Fabric) -> Symmetric:
    """Return the fabric's numbers in htsim's terms.

    Raises:
        InputError: parts are not alike, not up, or not possible in htsim.
    """
    per_leaf = _hosts_up(fabric)
    cables = np.unique(fabric.parallel)
    if len(cables) != 1 or not cables[0]:
        raise InputError("htsim requires the same number of cables between each leaf and each spine", field="fabric")
    parallel = int(cables[0])
    hosts, uplinks = (
        _speed(fabric, part) for part in (slice(0, fabric.first_cable_link), slice(fabric.first_cable_link, None))
    )
    radix_up = fabric.n_spines * parallel
    oversubscribed = per_leaf // radix_up
    # set_custom_params of fat_tree_topology.cpp asserts this: it derives the number of spines from the speeds.
    spines, odd = divmod(fabric.n_hosts * hosts, uplinks * max(1, oversubscribed) * fabric.n_leaves * parallel)
    if not oversubscribed or odd or spines * parallel != radix_up:
        raise InputError(
            f"htsim cannot build leaves with {per_leaf} x {hosts} Gbit/s down and {radix_up} x {uplinks} Gbit/s up: "
            "it counts cables, and requires an integer multiple of the uplinks' capacity below",
            field="fabric",
        )
    return Symmetric(fabric.n_spines, fabric.n_leaves, per_leaf, hosts, uplinks, parallel, oversubscribed)


def _hosts_up(fabric: Fabric) -> int:
    """Return the number of hosts on each leaf of a fabric without failed links."""
    if not fabric.link_up.all():
        down = fabric.link_ids[int(np.flatnonzero(~fabric.link_up)[0])]
        raise InputError("htsim's topology files do not support failed links", field="failed", value=down)
    return hosts_per_leaf(fabric)


def _speed(fabric: Fabric, part: slice | NDArray[np.integer]) -> int:
    speeds = np.unique(fabric.link_gbps[part])
    if len(speeds) != 1 or speeds[0] != int(speeds[0]) or speeds[0] < 1:
        shown = ", ".join(f"{speed:g}" for speed in speeds[:3].tolist())
        raise InputError(
            f"htsim requires one speed in whole Gbit/s for all cables of a tier, not {shown}", field="fabric"
        )
    return int(speeds[0])


def _add(into: _Values, place: SourceLine, key: str, text: str) -> None:
    if key in into.values:
        raise place.error(f"{key} is already in line {into.values[key][0].line}")
    if key in _LEFT_OUT:
        place.decimal(text, key, float(2**63))
        into.values[key] = (place, 0)
        return
    most = _MAX_GBPS if key == "Downlink_speed_Gbps" else MAX_RANKS
    into.values[key] = (place, place.whole(text, key, 1, most))


def _topology(tiers: dict[int, _Values], notes: tuple[str, ...]) -> Topology:
    head = tiers[-1]
    count = head.get("Tiers")
    if count not in (2, 3):
        raise head.error("Tiers", "a fabric has two or three tiers")
    for number in range(3):
        if number < count and number not in tiers:
            raise head.error("Tiers", f"tier {number} is missing")
        if number >= count and number in tiers:
            raise tiers[number].place.error("the tiers must be 0 and 1", f"Tier {number}")
    nodes = head.get("Nodes")
    per_pod = head.get("Podsize", None if count == 3 else nodes)
    if count == 2 and per_pod != nodes:
        raise head.error("Podsize", f"two tiers are one pod of all {nodes} nodes")
    if nodes % per_pod:
        raise head.error("Podsize", f"{nodes} nodes are not a multiple of it")
    pods = nodes // per_pod
    leaf, above = tiers[0], tiers[1]
    per_leaf = leaf.get("Radix_Down")
    if leaf.get("Bundle", 1) != 1:
        raise leaf.error("Bundle", "a host must have one cable")
    if per_pod % per_leaf:
        raise leaf.error("Radix_Down", f"{per_pod} nodes are not a multiple of it")
    leaves = per_pod // per_leaf
    names = ("leaves", "spine", "spines") if count == 2 else ("leaves", "aggregation switch", "aggregation switches")
    switches = _above(leaf, above, leaves, names)
    _check_oversubscribed(leaf, above, per_leaf)
    short: dict[str, Any] = {
        "leaves": leaves,
        "hosts_per_leaf": per_leaf,
        "host_gbps": leaf.get("Downlink_speed_Gbps"),
        "uplink_gbps": above.get("Downlink_speed_Gbps"),
    }
    if above.get("Bundle", 1) > 1:
        short["parallel"] = above.get("Bundle", 1)
    cables = pods * leaves * leaf.get("Radix_Up")
    if count == 2:
        key, short = "clos", {"spines": switches} | short
    else:
        core = tiers[2]
        key = "three_tier"
        short = {"pods": pods, "aggs": switches} | short
        short["cores_per_agg"] = _above(above, core, pods, ("pods", "core", "cores"))
        short["core_gbps"] = core.get("Downlink_speed_Gbps")
        if core.get("Bundle", 1) > 1:
            short["core_parallel"] = core.get("Bundle", 1)
        _check_oversubscribed(above, core, above.get("Radix_Down"))
        cables += pods * switches * above.get("Radix_Up")
    if per_leaf > MAX_HOSTS_PER_LEAF:
        raise leaf.error("Radix_Down", f"a leaf may have at most {MAX_HOSTS_PER_LEAF} hosts")
    if cables > MAX_CABLES:
        raise leaf.error("Radix_Up", f"{pods * leaves} leaves would have more than {MAX_CABLES} cables")
    try:
        (ClosForm if count == 2 else PodClosForm).model_validate(short)
    except ValidationError as error:
        raise from_validation_error(error, short).with_source(head.place.source.name) from None
    return Topology({key: short}, nodes, notes)


def _above(lower: _Values, upper: _Values, below: int, names: tuple[str, str, str]) -> int:
    """Return how many switches of the upper tier a switch has cables to.

    Args:
        lower: the values of the lower tier.
        upper: the values of the upper tier.
        below: the number of lower switches to which an upper switch has cables.
        names: what these are called, and one and several upper switches.
    """
    up, bundle = lower.get("Radix_Up"), upper.get("Bundle", 1)
    if up % bundle:
        raise lower.error("Radix_Up", f"it is not a multiple of the {names[2]}' bundle of {bundle}")
    if upper.get("Radix_Down") != below * bundle:
        raise upper.error(
            "Radix_Down", f"{below} {names[0]} with {bundle} cables each to a {names[1]} make {below * bundle}"
        )
    return up // bundle


def _check_oversubscribed(lower: _Values, upper: _Values, down: int) -> None:
    """Compare what a tier says of its oversubscription with its cables and speeds; ``down`` is its cables below."""
    up = lower.get("Radix_Up")
    host_gbps, uplink_gbps = lower.get("Downlink_speed_Gbps"), upper.get("Downlink_speed_Gbps")
    # htsim itself divides the numbers of cables; many files divide the capacities.
    ratios = {max(1, down // up), max(1, down * host_gbps // (up * uplink_gbps))}
    if lower.get("Oversubscribed", down // up) not in ratios and "Oversubscribed" in lower.values:
        raise lower.error(
            "Oversubscribed",
            f"{down} x {host_gbps} Gbit/s down and {up} x {uplink_gbps} Gbit/s up give another value",
        )
