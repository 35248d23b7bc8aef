"""The table of an experiment with re-plans."""

from __future__ import annotations

from emulation.experiments.learned.replan_run import ReplanOutcome
from emulation.readable_table import console_of, table_of

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
    console, table = console_of(_WIDE), table_of(_COLUMNS, 1)
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
