"""The table of training that people read."""

from __future__ import annotations

import os

from rich.text import Text

from emulation.experiments.table import spread, time_cell
from emulation.readable_table import console_of, table_of
from emulation.training.training_outcome import JobStanding, TrainingOutcome
from emulation.training.training_request import LEARNED

_WIDE = 132
_COLUMNS = (
    "job",
    "policy",
    "step",
    "ideal ring",
    "speed-up",
    "uplinks, MB a step",
    "loss at the end",
    "half the loss after",
)
_LEFT = 2


def print_training(outcome: TrainingOutcome) -> None:
    """Table and verdict, on standard output."""
    console, table = console_of(_WIDE), table_of(_COLUMNS, _LEFT)
    job = ""
    for row in outcome.standings:
        table.add_row(*(Text(cell) for cell in cells(row, repeat_job=row.job != job)))
        job = row.job
    console.print(table)
    for line in learned_lines(outcome):
        console.print(line, soft_wrap=True)
    console.print(verdict_line(outcome), soft_wrap=True)


def cells(row: JobStanding, *, repeat_job: bool = True) -> list[str]:
    """Return the cells of a row."""
    low, high = (count / 1e6 for count in row.uplinks)
    target = "-"
    if row.steps_to_target is not None:
        target = f"{row.steps_to_target} steps, {spread(row.seconds_to_target, '{:.1f}')} s"
    return [
        row.job if repeat_job else "",
        row.policy,
        time_cell(row.seconds),
        f"{row.ideal:.2f} s",
        f"{row.speed_up:.2f}",
        f"{low:.2f} to {high:.2f}",
        "-" if row.last_loss is None else f"{row.last_loss:.4f}",
        target,
    ]


def learned_lines(outcome: TrainingOutcome) -> list[str]:
    """Return a line for each job that was learned."""
    return [f"{LEARNED}: {job.in_words}" for launch in outcome.launches for job in launch.learned]


def verdict_line(outcome: TrainingOutcome) -> str:
    """Return a line with the checks and their results."""
    equal = sum(row.losses_equal for row in outcome.standings)
    planned = [launch for launch in outcome.launches if launch.planned is not None]
    links = sum(len(launch.sent) for launch in planned)
    astray = sum(len(launch.off_plan()) for launch in planned)
    return (
        f"losses equal: {equal} of {len(outcome.standings)} rows; links that carried the bytes of the plan: "
        f"{links - astray} of {links}; load of the machine {os.getloadavg()[0]:.1f}; {outcome.seconds:.0f} s in total"
    )
