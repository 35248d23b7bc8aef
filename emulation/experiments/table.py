"""The one table that people read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from emulation.experiments.results import ExperimentOutcome, JobMeans
from emulation.readable_table import console_of, table_of

_WIDE = 132
_COLUMNS = ("job", "policy", "time", "predicted", "speed-up", "flows on the busiest uplink", "min_speed", "bound")
_LEFT = 2


def print_outcome(outcome: ExperimentOutcome) -> None:
    """Scale, table and verdict, on standard output."""
    console, table = console_of(_WIDE), table_of(_COLUMNS, _LEFT)
    job = ""
    for row in outcome.standings():
        table.add_row(*(Text(cell) for cell in cells(row, repeat_job=row.job != job)))
        job = row.job
    console.print(scale_line(outcome), soft_wrap=True)
    console.print(table)
    console.print(verdict_line(outcome), soft_wrap=True)


def cells(row: JobMeans, *, repeat_job: bool = True) -> list[str]:
    """Return the cells of a row."""
    return [
        row.job if repeat_job else "",
        row.policy,
        time_cell(row.seconds),
        f"{row.predicted:.2f} s",
        f"{row.speed_up:.2f}",
        spread(row.busiest, "{:d}"),
        spread(row.min_speed, "{:.3f}"),
        "-" if row.bound is None else f"{row.bound:.3f}",
    ]


def time_cell(seconds: Sequence[float]) -> str:
    """Return the mean, and the range of the draws if there are several."""
    mean = f"{sum(seconds) / len(seconds):.2f} s"
    return mean if len(seconds) == 1 else f"{mean} ({min(seconds):.2f} to {max(seconds):.2f})"


def spread(values: Sequence[float], form: str) -> str:
    """``3``, or ``2 to 3`` where the draws differ."""
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def scale_line(outcome: ExperimentOutcome) -> str:
    """Return a line that explains the scale."""
    scale, fabric = outcome.scale, outcome.scenario.fabric
    fastest = float(fabric.link_gbps.max())
    return (
        f"{fastest:g} Gbit/s links run at {fastest * scale.mbps_per_gbps:.3g} Mbit/s (rates x {scale.rate:.3g}), "
        f"bytes x {scale.bytes:.3g}: 1 s here is {1e3 / scale.time:.3g} ms there"
    )


def verdict_line(outcome: ExperimentOutcome) -> str:
    """Return a line with the checks and their results."""
    rows = [row for run in outcome.runs for row in run.collectives]
    wrong = sum(bool(row.wrong) for row in rows)
    flows = sum(len(run.evidence.flows) for run in outcome.runs)
    astray = sum(len(run.evidence.wrong) for run in outcome.runs)
    resent = sum(row.retransmissions for row in rows)
    return (
        f"results checked: {len(rows) - wrong} of {len(rows)} collectives correct; planned flows counted: "
        f"{flows}, mismatches: {astray}; retransmitted packets: {resent}; {outcome.seconds:.0f} s in total"
    )
