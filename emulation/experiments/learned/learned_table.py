"""The table of an experiment with learned jobs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from emulation.experiments.learned.learned_run import LearnedRun
from emulation.experiments.learned.learned_watch import BYTES_OFF, PERIOD_OFF
from emulation.readable_table import console_of, table_of

_WIDE = 140
_COLUMNS = (
    "feeder",
    "job",
    "appears",
    "known",
    "recall",
    "precision",
    "bytes off",
    "period off",
    "hashed",
    "learned",
    "pushed",
    "speed-up",
    "to pushed",
)


def print_learned(runs: Sequence[LearnedRun]) -> None:
    """Print a row for each feeder and job: what was learned of it, and the times of its communication."""
    console, table = console_of(_WIDE), table_of(_COLUMNS, 2)
    for run in runs:
        for row in run.compared:
            hashed, learned, pushed = (fmean(run.seconds[name][row.job]) for name in ("hashed", "learned", "pushed"))
            table.add_row(
                run.feeder,
                row.job,
                str(run.appeared[row.job]),
                _number(run.known[row.job]),
                f"{row.recall:.3f}",
                f"{row.precision:.3f}",
                f"{row.bytes_off:.2%}",
                f"{row.period_off:.2%}",
                f"{hashed:.2f} s",
                f"{learned:.2f} s",
                f"{pushed:.2f} s",
                f"{hashed / learned:.2f}",
                f"{learned / pushed:.3f}",
            )
    console.print("no job was pushed before it was learned")
    console.print("appears: iterations of the job that had ended when all of its flows were learned")
    limits = ", ".join(f"{feeder} {part:.0%}" for feeder, part in BYTES_OFF.items())
    console.print(
        f"known: when bytes (off by at most: {limits}) and the period ({PERIOD_OFF:.0%}) were, too, and stayed so"
    )
    console.print(table)


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
