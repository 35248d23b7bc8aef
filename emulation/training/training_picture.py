"""The picture of training: what uplinks carried, seconds of steps, and the loss of jobs over time."""

from __future__ import annotations

import io
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from controller.whole_file import write_bytes
from emulation.experiments.networks.network import switches_in_words
from emulation.training.training_outcome import TrainingOutcome

WIDTH, HEIGHT, DPI = 11.0, 4.4, 130
"""Inches, and pixels an inch."""

_INK, _PALE = "#1f2933", "#52606d"
_COLOURS = ("#9aa5b1", "#2b7a78", "#c07830", "#5b5ea6", "#8c564b")
_LINES = ("-", "--", ":", "-.")


def draw(outcome: TrainingOutcome, path: Path) -> None:
    """Write a PNG, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI)
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(1, 3, left=0.06, right=0.985, top=0.78, bottom=0.2, wspace=0.28)
    _uplinks(figure.add_subplot(grid[0]), outcome)
    _steps(figure.add_subplot(grid[1]), outcome)
    _losses(figure.add_subplot(grid[2]), outcome)
    figure.text(0.018, 0.92, _headline(outcome), fontsize=12.5, weight="bold", color=_INK)
    figure.text(0.018, 0.03, _footnote(outcome), fontsize=7.5, color=_PALE)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    write_bytes(path, [image.getvalue()])


def _uplinks(axes: Any, outcome: TrainingOutcome) -> None:
    """Plot the bytes of each uplink in a step, sorted, a line for each launch."""
    policies = outcome.scenario.arms
    for launch in outcome.launches:
        counts = sorted((count / 1e6 for count in outcome.uplink_bytes(launch).values()), reverse=True)
        label = launch.policy if launch.number == 1 else None
        axes.step(range(len(counts)), counts, where="mid", color=_colour(policies, launch.policy), label=label, lw=1.3)
    axes.set_xlabel("uplinks, the fullest first", fontsize=8)
    _finish(axes, "MB that an uplink carried in a step")
    axes.legend(fontsize=7.5, frameon=False)


def _steps(axes: Any, outcome: TrainingOutcome) -> None:
    """Plot a bar for each job and policy, a dot for each launch, and a mark for the ideal ring."""
    policies, rows = outcome.scenario.arms, outcome.standings
    jobs = list(dict.fromkeys(row.job for row in rows))
    height, longest = 0.8 / len(policies), max(max(row.seconds) for row in rows)
    for row in rows:
        number = policies.index(row.policy)
        y = jobs.index(row.job) + (number - (len(policies) - 1) / 2) * height
        axes.barh(y, row.mean, height * 0.86, color=_colour(policies, row.policy), zorder=2)
        if len(row.seconds) > 1:
            axes.plot(row.seconds, [y] * len(row.seconds), "o", ms=3.5, mfc="w", mec=_INK, mew=0.8, zorder=4)
        axes.plot([row.ideal] * 2, [y - height * 0.45, y + height * 0.45], color=_INK, lw=1.4, zorder=3)
        text = f"{row.mean:.2f} s" + (f"  {row.speed_up:.1f}x" if number else "")
        axes.text(max(*row.seconds, row.ideal) + longest * 0.02, y, text, va="center", fontsize=8, color=_INK)
    axes.set_yticks(range(len(jobs)), jobs)
    axes.set_ylim(len(jobs) - 0.45, -0.55)
    axes.set_xlim(0, longest * 1.35)
    axes.set_xlabel("black: ideal ring; dots: launches", fontsize=8)
    _finish(axes, "seconds of a training step")


def _losses(axes: Any, outcome: TrainingOutcome) -> None:
    """Plot the loss of each job over training time, a line for each launch."""
    policies = outcome.scenario.arms
    for launch in outcome.launches:
        for number, job in enumerate(launch.jobs):
            ends = [0.0, *accumulate(job.seconds)][: len(job.losses)]
            points = [(end, loss) for end, loss in zip(ends, job.losses, strict=True) if loss is not None]
            if points:
                style = _LINES[number % len(_LINES)]
                label = job.job if launch is outcome.launches[-1] else None
                axes.plot(
                    *zip(*points, strict=True), style, color=_colour(policies, launch.policy), label=label, lw=1.2
                )
    axes.set_xlabel("seconds of training", fontsize=8)
    _finish(axes, "loss")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7.5, frameon=False)


def _finish(axes: Any, title: str) -> None:
    axes.set_title(title, fontsize=9.5, color=_INK, loc="left", pad=6)
    axes.tick_params(labelsize=8)
    axes.grid(axis="x", color="#e4e7eb", zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _colour(policies: tuple[str, ...], policy: str) -> str:
    return _COLOURS[policies.index(policy) % len(_COLOURS)]


def _headline(outcome: TrainingOutcome) -> str:
    scenario = outcome.scenario
    jobs, fabric = len(scenario.jobs), scenario.emulated.fabric
    head = f"{jobs} training job{'s' if jobs != 1 else ''} on {fabric.size_in_words}, {fabric.n_hosts} hosts"
    policies = scenario.request.policies
    if len(policies) == 1:
        return head
    gains = sorted(f"{row.speed_up:.1f}" for row in outcome.standings if row.policy == policies[-1])
    gain = gains[0] if gains[0] == gains[-1] else f"{gains[0]} to {gains[-1]}"
    return f"{head}: steps {gain} times as fast under {policies[-1]} as under {policies[0]}"


def _footnote(outcome: TrainingOutcome) -> str:
    scenario = outcome.scenario
    where = f"Counted on {switches_in_words(scenario.emulated.fabric)}, TCP; links run at "
    equal = "the same in all launches" if all(row.losses_equal for row in outcome.standings) else "not the same"
    return f"{where}{scenario.request.link_mbps:g} Mbit/s. Losses after each step are {equal}."
