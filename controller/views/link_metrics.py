"""The metrics of links: of each, or in large fabrics of all links of a layer that a switch counts. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from controller.core.controller_state import ControllerState
from controller.model.fabric import BoolArray, Fabric, FloatArray
from controller.model.paths.plane_places import plane_numbers
from controller.model.switch_key import SwitchKey
from controller.telemetry.port_rates import UNKNOWN, LinkRates
from controller.telemetry.sample_columns import Labels, SampleColumns
from controller.views.documents import drained_cables, known_links

BYTES_PER_GBIT = 1e9 / 8


def link_metrics(
    state: ControllerState, fabric: Fabric, rates: LinkRates, most: int, connected: Collection[SwitchKey]
) -> Iterator[SampleColumns]:
    """Yield the families of links, and those of groups of links.

    The former have samples where the fabric has at most ``most`` directed links, the latter where it has more: the size
    of the answer is then in proportion to the switches.
    """
    load = np.zeros(fabric.n_links) if state.plan is None else state.plan.objective.link_load
    drained = np.zeros(fabric.n_links, dtype=np.bool_)
    drained[fabric.first_cable_link :] = np.repeat(drained_cables(state), 2)
    large = fabric.n_links > most
    known = known_links(fabric, connected, state.network)
    yield from _of_links(fabric, rates, load, drained, known, () if large else link_labels(fabric))
    yield from _of_groups(fabric, rates, load, drained, grouped=large)


def _of_links(
    fabric: Fabric,
    rates: LinkRates,
    load: FloatArray,
    drained: BoolArray,
    known_state: BoolArray,
    label_values: list[tuple[str, ...]] | tuple[()],
) -> Iterator[SampleColumns]:
    labels = Labels(("link", "layer", "leaf", *_plane(fabric)), label_values)

    def family(
        name: str, text: str, values: NDArray[Any], kind: Literal["counter", "gauge"] = "gauge"
    ) -> SampleColumns:
        known = values != UNKNOWN if kind == "counter" else ~np.isnan(values)
        return SampleColumns(
            f"fairspine_link_{name}", text, kind, labels, _shown(values, known) if label_values else ()
        )

    yield family("bytes", "Bytes sent over a link, as counted by its port.", rates.bytes, "counter")
    yield family("dropped_packets", "Packets dropped at the sending port.", rates.dropped, "counter")
    yield family("errors", "Errors at the sending port.", rates.errors, "counter")
    used = rates.gbps / fabric.link_gbps
    yield family("utilisation_ratio", "Rate divided by capacity, over the last period.", used)
    yield family("capacity_bytes_per_second", "Capacity of a link.", fabric.link_gbps * BYTES_PER_GBIT)
    yield family("planned_bytes_per_second", "Load at the speeds of the newest plan.", load * BYTES_PER_GBIT)
    up = np.where(known_state, fabric.link_up, np.nan)
    yield family("up", "1 if a link is up; no sample: a switch at its end is not connected.", up)
    yield family("drained", "1 if a link is drained.", drained)


def _of_groups(
    fabric: Fabric, rates: LinkRates, load: FloatArray, drained: BoolArray, *, grouped: bool
) -> Iterator[SampleColumns]:
    label_values, group = link_groups(fabric) if grouped else ((), np.zeros(0, dtype=np.int64))
    labels, n = Labels(("switch", "layer", *_plane(fabric)), label_values), len(label_values)

    def family(
        name: str, text: str, values: NDArray[Any], kind: Literal["counter", "gauge"] = "gauge"
    ) -> SampleColumns:
        return SampleColumns(f"fairspine_links_{name}", text, kind, labels, _shown(values, ~np.isnan(values)))

    def total(values: NDArray[Any], of: BoolArray) -> FloatArray:
        """Return the sum of some of the links of each group; NaN where there is none of them."""
        of = of[: len(group)]
        sums = np.bincount(group[of], values[: len(group)][of], n)
        return np.where(np.bincount(group[of], minlength=n) > 0, sums, np.nan)

    def extreme(ufunc: np.ufunc, values: FloatArray, of: BoolArray) -> FloatArray:
        extremes, of = np.full(n, np.nan), of[: len(group)]
        ufunc.at(extremes, group[of], values[: len(group)][of])
        return extremes

    def counter(name: str, text: str, values: NDArray[Any]) -> SampleColumns:
        # A switch counts all links of a group: they are known, and begin at 0, together.
        return family(name, text, total(values, values != UNKNOWN), "counter")

    yield counter("bytes", "Bytes sent over the links of a switch and layer, as counted by its ports.", rates.bytes)
    yield counter(
        "dropped_packets", "Packets dropped at the ports of a switch for the links of a layer.", rates.dropped
    )
    yield counter("errors", "Errors at the ports of a switch for the links of a layer.", rates.errors)
    used = rates.gbps / fabric.link_gbps
    measured = fabric.link_up & ~drained & ~np.isnan(used)
    text = "Utilisation of the {} used link of a switch and layer that is up and not drained."
    yield family("highest_utilisation_ratio", text.format("most"), extreme(np.fmax, used, measured))
    yield family("lowest_utilisation_ratio", text.format("least"), extreme(np.fmin, used, measured))
    every, capacity = np.ones(fabric.n_links, dtype=np.bool_), np.where(fabric.link_up, fabric.link_gbps, 0.0)
    yield family(
        "capacity_bytes_per_second",
        "Capacity of the links of a switch and layer that are up.",
        total(capacity * BYTES_PER_GBIT, every),
    )
    yield family(
        "planned_bytes_per_second",
        "Load of the links of a switch and layer at the speeds of the newest plan.",
        total(load * BYTES_PER_GBIT, every),
    )
    yield family("down", "Links of a switch and layer that are down.", total(~fabric.link_up, every))
    yield family("drained", "Links of a switch and layer that are drained.", total(drained, every))


def _plane(fabric: Fabric) -> tuple[str, ...]:
    return ("plane",) if fabric.planes.count > 1 else ()


def _shown(values: NDArray[Any], known: BoolArray) -> list[float | None]:
    samples: list[float | None] = values.astype(np.float64).tolist()
    for unknown in np.flatnonzero(~known).tolist():
        samples[unknown] = None
    return samples


def link_groups(fabric: Fabric) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    """Return switch and layer (and plane) of each group of links, and the group of each directed link [E].

    A group has the links of one layer that one switch counts: it sends them, or receives them from hosts.
    """
    counts = [host.leaf for host in fabric.hosts] * 2
    for cable in fabric.cables:
        counts += (cable.lower, cable.upper)
    number: dict[tuple[str, ...], int] = {}
    group = [
        number.setdefault((switch, layer, *plane), len(number))
        for switch, (_, layer, _, *plane) in zip(counts, link_labels(fabric), strict=True)
    ]
    return list(number), np.array(group, dtype=np.int64)


def link_labels(fabric: Fabric) -> list[tuple[str, ...]]:
    """Return id, layer and leaf of each directed link [E], and its plane, from 1, where NICs have several ports.

    The layers are from_host, to_host, uplink and downlink; links between aggregation switches and cores are in layers
    of their own, and have the aggregation switch in place of the leaf.
    """
    leaves = [host.leaf for host in fabric.hosts]
    places = [("from_host", leaf) for leaf in leaves] + [("to_host", leaf) for leaf in leaves]
    for cable, tier in zip(fabric.cables, fabric.cable_tier.tolist(), strict=True):
        prefix = "aggregation_" if tier else ""
        places += [(f"{prefix}uplink", cable.lower), (f"{prefix}downlink", cable.lower)]
    links = zip(fabric.link_ids, places, strict=True)
    if fabric.planes.count == 1:
        return [(link, *place) for link, place in links]
    planes = ["" if plane is None else str(plane) for plane in plane_numbers(fabric)]
    return [(link, *place, plane) for (link, place), plane in zip(links, planes, strict=True)]
