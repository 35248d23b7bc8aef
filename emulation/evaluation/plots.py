"""Plots of standings, as PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence

from emulation.evaluation.standings import Standing


def plot(standings: Sequence[Standing]) -> bytes:
    """Epoch time, transfer times and planning time of one kind of cases, by policy and failure."""
    from matplotlib.figure import Figure

    policies = list(dict.fromkeys(standing.policy for standing in standings))
    failures = list(dict.fromkeys(standing.failure for standing in standings))
    at = {(standing.policy, standing.failure): standing for standing in standings}
    figure = Figure(figsize=(11, 10), layout="constrained")
    wanted = (
        ("ratio", "epoch time ÷ ideal", False),
        ("fct_99", "99th percentile of transfer times (s)", True),
        ("planning_mean", "planning time, mean (s)", True),
    )
    for axes, (name, label, logarithmic) in zip(figure.subplots(len(wanted), 1, sharex=True), wanted, strict=True):
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
    axes.set_xticks(range(len(policies)), policies, rotation=20, ha="right")
    figure.axes[0].legend(ncols=len(failures), fontsize="small")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=90, metadata={"Software": None})
    return image.getvalue()
