"""The table of learned jobs shows each figure of a job whole, and its ratios are of mean times."""

from __future__ import annotations

import pytest

from emulation.experiments.learned.learned_run import LearnedRun
from emulation.experiments.learned.learned_table import print_learned
from emulation.experiments.learned.learned_truth import LearnedAgainstSent


def test_a_row_has_the_iterations_and_the_ratios_of_mean_times(capsys: pytest.CaptureFixture[str]) -> None:
    row = LearnedAgainstSent("gpt3-a", ("learned-0123abcd",), 0.75, 1.0, 0.0125, 0.0025, 7)
    seconds: dict[str, dict[str, tuple[float, ...]]] = {
        "hashed": {"gpt3-a": (9.0, 11.0)},
        "learned": {"gpt3-a": (4.0, 4.0)},
        "pushed": {"gpt3-a": (3.0, 5.0)},
    }
    print_learned([LearnedRun("host", (row,), {"gpt3-a": 2}, {"gpt3-a": 3}, seconds)])
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if "gpt3-a" in line]
    assert line.split() == [
        "host",
        "gpt3-a",
        "2",
        "3",
        "0.750",
        "1.000",
        "1.25%",
        "0.25%",
        "10.00",
        "s",
        "4.00",
        "s",
        "4.00",
        "s",
        "2.50",
        "1.000",
    ]
