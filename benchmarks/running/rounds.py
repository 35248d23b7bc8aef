"""The command line of benchmarks that measure jobs of several sizes, each a number of times."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Row = Mapping[str, object]


def run(
    purpose: str, measure: Callable[[Sequence[int], int], list[Row]], sizes: Sequence[int], columns: Mapping[str, str]
) -> None:
    """Read the options, measure, print a table, and write the rows as JSON if the options name a file.

    Args:
        purpose: the first line of the help.
        measure: gets the sizes of jobs, in flows, and the number of rounds; returns the rows of the table.
        sizes: the usual ones.
        columns: the heading of each key of a row, in the order of the table. A value whose key ends with ``_seconds``
            or ``_ms`` has this unit.
    """
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--flows", type=int, nargs="+", default=sizes, help="sizes of jobs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    rows = measure(options.flows, options.rounds)
    table = [list(columns.values()), *([_cell(key, row[key]) for key in columns] for row in rows)]
    widths = [max(map(len, column)) + 2 for column in zip(*table, strict=True)]
    for cells in table:
        print("".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


def _cell(key: str, value: object) -> str:
    unit = key.rpartition("_")[2]
    return f"{value} {'s' if unit == 'seconds' else unit}" if unit in ("seconds", "ms") else str(value)
