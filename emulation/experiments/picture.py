"""The picture: busy time of each link under the first and the last policy, and the times of the jobs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from controller.whole_file import write_bytes
from emulation.experiments.networks.network import switches_in_words
from emulation.experiments.results import ExperimentOutcome, MeasuredDraw, busiest_uplink

WIDTH, HEIGHT, DPI = 11.0, 4.9, 130
"""Inches, and pixels an inch: 1430 x 637 pixels, legible at the width of a README."""

_MOST_LABELLED = 10
"""Leaves or spines up to which each has its name and each link its number."""

_HEAT = LinearSegmentedColormap.from_list("heat", ["#f4f6f8", "#9ecae1", "#fdae6b", "#d7301f"])
_INK, _PALE = "#1f2933", "#52606d"
_BARS = ("#9aa5b1", "#2b7a78", "#c07830", "#5b5ea6", "#8c564b")


def draw(outcome: ExperimentOutcome, path: Path) -> None:
    """Write a PNG, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
    FigureCanvasAgg(figure)
    shown = _shown(outcome)
    n = len(shown)
    grid = figure.add_gridspec(
        2,
        n + 2,
        width_ratios=[*[1] * n, 0.05, 1.2],
        left=0.075,
        right=0.985,
        top=0.8,
        bottom=0.17,
        wspace=0.1,
        hspace=0.1,
    )
    busy = [outcome.busy_seconds(run) for run in shown]
    # A link that is busy for as long as the jobs need anyway is no reason for alarm.
    norm = Normalize(0.0, max(2 * outcome.scenario.request.seconds, *(max(values.values()) for values in busy)))
    for column, (run, values) in enumerate(zip(shown, busy, strict=True)):
        for row, up in enumerate((True, False)):
            axes = figure.add_subplot(grid[row, column])
            image = _heat(axes, outcome, values, norm, up=up, first=column == 0)
            if row == 0:
                axes.set_title(_title(outcome, run), fontsize=9.5, color=_INK, loc="left", pad=6, linespacing=1.4)
    scale = figure.add_subplot(grid[:, n])
    bar = figure.colorbar(image, cax=scale)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.ax.set_title("seconds\nbusy", fontsize=7.5, color=_PALE, loc="left", pad=6)
    bar.outline.set_visible(False)
    times = figure.add_subplot(grid[:, n + 1])
    at = times.get_position()
    times.set_position((at.x0 + 0.035, at.y0, at.width - 0.035, at.height))
    _times(times, outcome)
    figure.text(0.018, 0.94, _headline(outcome), fontsize=12.5, weight="bold", color=_INK)
    figure.text(0.018, 0.03, _footnote(outcome), fontsize=7.5, color=_PALE)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    write_bytes(path, [image.getvalue()])


def _shown(outcome: ExperimentOutcome) -> list[MeasuredDraw]:
    """Return, for the first and the last policy, the draw that is nearest to the policy's mean."""
    policies = outcome.scenario.request.policies
    chosen = []
    for policy in dict.fromkeys((policies[0], policies[-1])):
        runs = outcome.of(policy)
        totals = [sum(job.mean for job in run.jobs) for run in runs]
        mean = sum(totals) / len(totals)
        chosen.append(min(zip(totals, runs, strict=True), key=lambda pair: abs(pair[0] - mean))[1])
    return chosen


def _title(outcome: ExperimentOutcome, run: MeasuredDraw) -> str:
    fabric = outcome.scenario.fabric
    most = busiest_uplink(run, fabric.link_ids[fabric.first_cable_link :: 2])
    draws = outcome.of(run.draw.policy)
    which = f" (draw {draws.index(run) + 1} of {len(draws)})" if len(draws) > 1 else ""
    return f"{run.draw.policy}{which}\nbusiest uplink: {most} flow{'s' if most != 1 else ''}"


def _matrix(outcome: ExperimentOutcome, values: dict[str, float], *, up: bool) -> NDArray[np.float64]:
    """[leaves, path classes] busy seconds of each cable in one direction; NaN where there is none."""
    fabric = outcome.scenario.fabric
    matrix = np.full((fabric.n_leaves, fabric.up_link.shape[1]), np.nan)
    for leaf in range(fabric.n_leaves):
        for k in range(fabric.up_link.shape[1]):
            link = int(fabric.up_link[leaf, k])
            if link >= 0:
                matrix[leaf, k] = values[fabric.link_ids[link if up else link + 1]]
    return matrix


def _heat(
    axes: Any, outcome: ExperimentOutcome, values: dict[str, float], norm: Normalize, *, up: bool, first: bool
) -> Any:
    fabric = outcome.scenario.fabric
    matrix = _matrix(outcome, values, up=up)
    image = axes.imshow(matrix, cmap=_HEAT, norm=norm, aspect="auto")
    small = max(matrix.shape) <= _MOST_LABELLED
    if small:
        for (leaf, k), value in np.ndenumerate(matrix):
            if not np.isnan(value):
                dark = norm(value) > 0.75
                axes.text(k, leaf, f"{value:.1f}", ha="center", va="center", fontsize=8, color="w" if dark else _INK)
    axes.set_xticks(
        range(fabric.up_link.shape[1]) if small else [], fabric.path_names[: fabric.up_link.shape[1]] if small else []
    )
    axes.set_yticks(
        range(fabric.n_leaves) if small else [], [leaf.name for leaf in fabric.leaves] if small and first else None
    )
    if not first:
        axes.set_yticklabels([])
    else:
        above = "spine" if len(fabric.layers) == 2 else "aggregation"
        axes.set_ylabel(f"leaf to {above}" if up else f"{above} to leaf", fontsize=8.5, color=_PALE)
    if up:
        axes.set_xticklabels([])
    axes.tick_params(length=0, labelsize=8)
    axes.set_xticks(np.arange(-0.5, fabric.up_link.shape[1]), minor=True)
    axes.set_yticks(np.arange(-0.5, fabric.n_leaves), minor=True)
    axes.grid(which="minor", color="white", linewidth=2 if small else 0.3)
    axes.tick_params(which="minor", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return image


def _times(axes: Any, outcome: ExperimentOutcome) -> None:
    """Plot a bar for each job and policy, a dot for each draw, and a mark for the plan's prediction."""
    policies = outcome.scenario.request.policies
    standings = outcome.standings()
    jobs = list(dict.fromkeys(row.job for row in standings))
    height = 0.8 / len(policies)
    longest = max(max(row.seconds) for row in standings)
    for row in standings:
        number = policies.index(row.policy)
        y = jobs.index(row.job) + (number - (len(policies) - 1) / 2) * height
        first = row.job == jobs[0]
        axes.barh(
            y, row.mean, height * 0.86, color=_BARS[number % len(_BARS)], label=row.policy if first else None, zorder=2
        )
        if len(row.seconds) > 1:
            axes.plot(row.seconds, [y] * len(row.seconds), "o", ms=3.5, mfc="w", mec=_INK, mew=0.8, zorder=4)
        axes.plot([row.predicted] * 2, [y - height * 0.45, y + height * 0.45], color=_INK, lw=1.4, zorder=3)
        text = f"{row.mean:.1f} s" + (f"  {row.speed_up:.1f}x as fast" if number else "")
        axes.text(max(*row.seconds, row.predicted) + longest * 0.02, y, text, va="center", fontsize=8.5, color=_INK)
    axes.plot([], [], color=_INK, lw=1.4, label="predicted from the plan")
    if any(len(row.seconds) > 1 for row in standings):
        axes.plot([], [], "o", ms=3.5, mfc="w", mec=_INK, mew=0.8, label="one draw")
    for number, job in enumerate(jobs):
        axes.text(0, number - 0.44, job, fontsize=9, weight="bold", color=_INK, va="bottom")
    axes.set_yticks([])
    axes.set_ylim(len(jobs) - 0.45, -0.75)
    axes.set_xlim(0, longest * 1.35)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=longest > 3))
    axes.set_xlabel("time until the last rank has its result (s)", fontsize=8)
    axes.set_title("time of each job's collectives", fontsize=9.5, color=_INK, loc="left", pad=6)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#e4e7eb", zorder=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=7.5, frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(-0.02, -0.12))


def _headline(outcome: ExperimentOutcome) -> str:
    fabric = outcome.scenario.fabric
    jobs = len(outcome.runs[0].jobs)
    return (
        f"{jobs} training job{'s' if jobs != 1 else ''} on {fabric.size_in_words}, "
        f"{fabric.n_hosts} hosts: {_result(outcome)}"
    )


def _result(outcome: ExperimentOutcome) -> str:
    policies = outcome.scenario.request.policies
    if len(policies) == 1:
        return "measured on packets"
    gains = sorted(row.speed_up for row in outcome.standings() if row.policy == policies[-1])
    low, high = f"{gains[0]:.1f}", f"{gains[-1]:.1f}"
    gain = low if low == high else f"{low} to {high}"
    return f"{gain} times as fast under {policies[-1]} as under {policies[0]}"


def _footnote(outcome: ExperimentOutcome) -> str:
    scale = outcome.scale
    fastest = float(outcome.scenario.fabric.link_gbps.max())
    return (
        f"Counted on {switches_in_words(outcome.scenario.fabric)}, RoCEv2 packets. {fastest:g} Gbit/s links run at "
        f"{fastest * scale.mbps_per_gbps:.3g} Mbit/s; bytes x {scale.bytes:.3g}; "
        f"1 s here is {1e3 / scale.time:.3g} ms there."
    )
