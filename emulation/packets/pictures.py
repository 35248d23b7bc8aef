"""Pictures of a referee's report, as PNG: ratios, load of the busiest links over time, and times of transfers."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from controller.model.fabric import Fabric
from controller.model.units import GBIT
from emulation.packets.referee import Bout
from emulation.packets.summary import RefereeStanding

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_ratios(standings: Sequence[RefereeStanding]) -> bytes:
    """Plot the time of the slowest job over the best spraying, mean and worst, by contender."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots()
    # There is no spraying on the lab.
    standings = [each for each in standings if not math.isnan(each.over_spraying)]
    where = np.arange(len(standings))
    axes.bar(where, [each.over_spraying for each in standings], 0.7)
    axes.plot(where, [each.over_spraying_worst for each in standings], "k_", markersize=14, label="worst case")
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_ylabel("slowest job ÷ best spraying")
    axes.set_xticks(where, [each.policy for each in standings], rotation=20, ha="right")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small")
    return _png(figure)


def plot_links(fabric: Fabric, bouts: Sequence[Bout]) -> bytes:
    """Plot the load of the links between switches over time: mean and busiest, by contender."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    mean, busiest = figure.subplots(2, 1, sharex=True)
    first = fabric.first_cable_link
    for bout in bouts:
        bins = bout.results.bins
        if len(bins) < 2:
            continue
        load = np.diff(bins[:, first:], axis=0) * GBIT / (fabric.link_gbps[first:] * bout.bin_seconds)
        at = np.arange(1, len(bins)) * bout.bin_seconds * 1e6
        mean.plot(at, load.mean(axis=1), label=bout.contender.name, linewidth=1)
        busiest.plot(at, load.max(axis=1), label=bout.contender.name, linewidth=1)
    mean.set_ylabel("mean load")
    busiest.set_ylabel("busiest link")
    busiest.set_xlabel("µs")
    for axes in (mean, busiest):
        axes.grid(alpha=0.3)
    mean.legend(fontsize="x-small", ncols=4)
    return _png(figure)


def plot_transfers(bouts: Sequence[Bout]) -> bytes:
    """Plot the distribution of the times of transfers (steps of rings), by contender."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots()
    for bout in bouts:
        transfers = bout.results.transfers
        if not len(transfers):
            continue
        took = np.sort(transfers[:, 4] - transfers[:, 3]) * 1e6
        axes.plot(took, np.linspace(0, 1, len(took)), label=bout.contender.name, linewidth=1)
    axes.set_xlabel("time of a transfer (µs)")
    axes.set_ylabel("part of the transfers")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small", ncols=2)
    return _png(figure)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()
