"""A file of the product holds one idea, in at most 400 lines."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("controller", "emulation", "fairspine", "topologies")

MOST_LINES = 400

LONGER = {
    "controller/routing/kernels/breakout_search.py": (
        "one compiled function: Numba compiles it anew only when this file changes, so its inlined parts stay here"
    ),
    "controller/southbound/host_table.py": "one table with its rules of admission; its parts are in files of their own",
    "controller/southbound/link_evidence.py": "a table of the evidence for each link, and the events that change it",
    "controller/southbound/openflow/connection.py": "one state machine, from the first byte of a connection to its end",
    "controller/workload/importers/nccl/log.py": "one reader: its cases share the state of the log that is being read",
}
"""Files that may be longer, and why."""


def lengths() -> dict[str, int]:
    """Return the number of lines of each file of the product."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in paths}


def test_a_file_has_at_most_400_lines() -> None:
    long = {name: lines for name, lines in lengths().items() if lines > MOST_LINES and name not in LONGER}
    assert long == {}


def test_each_exempt_file_is_still_longer() -> None:
    found = lengths()
    assert [name for name in LONGER if found.get(name, 0) <= MOST_LINES] == []
