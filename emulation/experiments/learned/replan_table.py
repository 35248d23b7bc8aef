"""The table of an experiment with re-plans."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from emulation.experiments.learned.replan_run import ReplanOutcome

_WIDE = 140
_COLUMNS = (
    "rules are written",
    "plans",
    "while jobs sent",
    "flows moved",
    "NAKs",
    "sent again",
    "NAKs otherwise",
    "burst",
    "other bursts",
)


def print_replans(outcome: ReplanOutcome) -> None:
    """Print a row for each time at which rules are written."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDE)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(_COLUMNS):
        table.add_column(column, justify="left" if i == 0 else "right")
    for each in outcome.rounds:
        table.add_row(
            each.kind,
            str(len(each.replans)),
            str(sum(one.sending for one in each.replans)),
            str(sum(one.moved for one in each.replans)),
            str(each.naks),
            str(each.resent),
            str(each.other_naks),
            f"{each.seconds:.2f} s",
            f"{each.usual_seconds:.2f} s",
        )
    console.print(f"feeder: {outcome.feeder}; {outcome.flows} flows of learned jobs")
    console.print(table)
