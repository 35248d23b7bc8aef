"""The table of a campaign has a row for each kind, with medians, worst cases and sums."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from tests.campaigns.cluster.outcome import FaultRound, table


def test_rounds_of_a_kind_are_one_row() -> None:
    rounds = [
        FaultRound("kill -9", 1.0, 0.5, 0, 0, None, 10, 1, True, 4),
        FaultRound("kill -9", None, 1.5, 0, 0, 0, 20, 2, True),
        FaultRound("step-down", None, None, 3, 2, 4, 5, 0, False),
    ]
    written = StringIO()
    Console(width=140, file=written).print(table(rounds))
    lines = [line.split() for line in written.getvalue().splitlines()]
    assert ["kill", "-9", "2", "2", "1.00", "(1.00)", "1.00", "(1.50)", "0", "0", "0", "30", "4", "3"] in lines
    assert ["step-down", "1", "0", "-", "-", "3", "2", "4", "5", "0", "0"] in lines
