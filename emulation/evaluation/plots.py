"""Plots of standings and of single simulations, as PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from emulation.evaluation.standings import PolicyMeans
from emulation.fluid.records import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from emulation.evaluation.cell import Row


def plot(standings: Sequence[PolicyMeans]) -> bytes:
    """Epoch time, transfer times and planning time of one kind of cases, by policy and failure."""
    from matplotlib.figure import Figure

    policies = list(dict.fromkeys(standing.policy for standing in standings))
    failures = list(dict.fromkeys(standing.failure for standing in standings))
    at = {(standing.policy, standing.failure): standing for standing in standings}
    figure = Figure(figsize=(11, 10), layout="constrained")
    measures = (
        ("ratio", "epoch time ÷ ideal", False),
        ("fct_99", "99th percentile of transfer times (s)", True),
        ("planning_mean", "planning time, mean (s)", True),
    )
    # Optical circuits have no transfers.
    wanted = [each for each in measures if any(getattr(standing, each[0]) for standing in standings)] or measures[:1]
    columns = figure.subplots(len(wanted), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, label, logarithmic) in zip(columns, wanted, strict=True):
        width = 0.8 / len(failures)
        for f, failure in enumerate(failures):
            height = [getattr(at.get((policy, failure)), name, None) or 0.0 for policy in policies]
            where = [p + (f - (len(failures) - 1) / 2) * width for p in range(len(policies))]
            axes.bar(where, height, width, label=f"failed: {failure}")
        if logarithmic:
            axes.set_yscale("log")
        else:
            axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_ylabel(label)
        axes.grid(axis="y", alpha=0.3)
    figure.axes[-1].set_xticks(range(len(policies)), policies, rotation=20, ha="right")
    figure.axes[0].legend(ncols=len(failures), fontsize="small")
    return _png(figure)


def plot_paper_axes(rows: Sequence[Row]) -> bytes | None:
    """Plot rows of one kind of cases as arXiv 2503.05324 does: over number of jobs, size of rings, and failures.

    Above, the epoch time over the ideal, mean and 25th to 99th percentile; below, the planning time. Number of jobs and
    size of rings are those of cases without failures. ``None`` if the cases differ in neither.
    """
    from matplotlib.figure import Figure

    whole = [row for row in rows if row["failure"] == "none"]
    if all(len({row[name] for row in whole}) < 2 or None in {row[name] for row in whole} for name in ("jobs", "ring")):
        return None
    figure = Figure(figsize=(13, 8), layout="constrained")
    above, below = figure.subplots(2, 3, sharex="col")
    columns = (("jobs", "jobs", whole), ("ring", "ranks of a ring", whole), ("failure", "failed", rows))
    for axes, name in ((above, "ratio"), (below, "planning_mean")):
        for panel, (column, label, those) in zip(axes, columns, strict=True):
            _lines(panel, those, column, name)
            panel.set_xlabel(label)
            panel.grid(axis="y", alpha=0.3)
    above[0].set_ylabel("epoch time ÷ ideal: mean, 25 to 99 %")
    below[0].set_ylabel("planning time, mean (s)")
    for panel in below:
        panel.set_yscale("log")
    above[0].legend(fontsize="x-small", ncols=2)
    return _png(figure)


def _lines(panel: Axes, rows: Sequence[Row], column: str, name: str) -> None:
    """Draw a line for each policy: the mean of a column of the rows at each value of another one."""
    values = list(dict.fromkeys(row[column] for row in rows if row[column] is not None))
    values = values if column == "failure" else sorted(values)
    # The first allocation of each policy: the others differ only where flows are split.
    allocation = {row["policy"]: row["allocation"] for row in reversed(rows)}
    rows = [row for row in rows if row["allocation"] == allocation[row["policy"]]]
    labels = list(dict.fromkeys(row["policy"] for row in rows))
    for k, label in enumerate(labels):
        at, mean, low, high = [], [], [], []
        for x, value in enumerate(values):
            own = [row for row in rows if row[column] == value and row["policy"] == label]
            known = [row for row in own if row[name] is not None]
            if not known or len(known) < len(own):
                continue
            at.append(x + (k - (len(labels) - 1) / 2) * 0.6 / len(labels))
            mean.append(float(np.mean([row[name] for row in known])))
            low.append(float(np.mean([row["ratios"]["25"] for row in known])))
            high.append(float(np.mean([row["ratios"]["99"] for row in known])))
        middle = np.array(mean)
        spread = [np.maximum(0.0, middle - low), np.maximum(0.0, np.array(high) - middle)] if name == "ratio" else None
        panel.errorbar(at, mean, yerr=spread, marker="o", markersize=3, linewidth=1, elinewidth=0.8, label=label)
    panel.set_xticks(range(len(values)), [str(value) for value in values])


def plot_results(results: Results) -> bytes:
    """Plot one simulation: epochs of each job, durations of transfers, and the links' utilisation if recorded."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 10), layout="constrained")
    epochs, transfers, links = figure.subplots(3, 1)
    for job in results.came:
        own = [epoch for epoch in results.epochs if epoch.job == job]
        epochs.plot([epoch.ended for epoch in own], [epoch.seconds for epoch in own], marker=".", label=job)
    epochs.set(xlabel="seconds", ylabel="communication of an epoch (s)", ylim=(0, None))
    if results.came:
        epochs.legend(fontsize="small")
    took = np.sort(results.flows.ended - results.flows.began)
    transfers.step(took, np.arange(1, len(took) + 1) / max(len(took), 1), where="post")
    transfers.set(xlabel="seconds of a transfer", ylabel="share of transfers")
    if len(results.bin_end):
        first = results.fabric.first_cable_link
        seconds = np.diff(results.bin_end, prepend=0.0)
        used = results.gbit[:, first:] / (results.fabric.link_gbps[first:] * seconds[:, None])
        links.plot(results.bin_end, used.max(axis=1, initial=0.0), drawstyle="steps-pre", label="busiest link")
        links.plot(results.bin_end, used.mean(axis=1), drawstyle="steps-pre", label="mean")
        links.legend(fontsize="small")
    else:
        links.text(0.5, 0.5, "the scenario has no bins", ha="center", transform=links.transAxes)
    links.set(xlabel="seconds", ylabel="leaf-spine links, utilisation", ylim=(0, 1.05))
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    return _png(figure)


def _png(figure: Figure) -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=90, metadata={"Software": None})
    return image.getvalue()
