"""Tolerances and port numbers are named once over the tree."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("agent", "controller", "emulation", "fairspine")
TREE = (*PRODUCT, "topologies", "benchmarks", "scripts", "tests", "examples")

TOLERANCES = "controller/model/tolerances.py"
SMALL = 1e-5
"""Positive numbers up to this are tolerances, unless the file is named below."""

MAYBE_SMALL = re.compile(r"\d[eE]-|\.0*_?0000|\.e-")

NOT_TOLERANCES = {
    "controller/model/units.py": "factors between units",
    "controller/workload/importers/fabrics/ns3.py": "units of rates",
    "controller/workload/job_file.py": "the least weight of a job",
    "controller/config.py": "the least capacity of a link",
    "controller/cli/local/exporting.py": "the least factor of bytes",
    "agent/ports/answer_budgets.py": "errors of rounding; the agent imports no tolerances",
}

NAMED = {
    "4791": ("controller/model/packets/port_numbers.py", "ROCE_PORT"),
    "65535": ("controller/model/packets/port_numbers.py", "MAX_PORT"),
    "65536": (None, "MAX_PORT + 1, SPINE_DPID, or 64 * 1024 of bytes"),
}
"""Number -> the one file that may have it, and its name. Bit masks and codes of 16 bits are hexadecimal."""

THIS = Path(__file__).relative_to(ROOT).as_posix()


def files(packages: tuple[str, ...]) -> list[str]:
    """Return the Python files of some packages, relative to the root."""
    found = [path.relative_to(ROOT).as_posix() for package in packages for path in (ROOT / package).rglob("*.py")]
    return sorted(set(found) - {THIS})


def small_floats(name: str) -> list[tuple[int, float]]:
    """Return line and value of each small float of a file."""
    source = (ROOT / name).read_text()
    # Without an exponent or zeros behind the point there is none, and parsing all files takes long.
    if not MAYBE_SMALL.search(source):
        return []
    return [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and 0.0 < node.value <= SMALL
    ]


def test_tolerances_are_written_in_one_file() -> None:
    inline = {
        f"{name}:{line}": value
        for name in files(PRODUCT)
        if name != TOLERANCES and name not in NOT_TOLERANCES
        for line, value in small_floats(name)
    }
    assert inline == {}


@pytest.mark.parametrize("name", sorted(NOT_TOLERANCES))
def test_each_exempt_file_has_such_a_number(name: str) -> None:
    assert small_floats(name)


def test_each_tolerance_has_a_reason_and_is_used() -> None:
    body = ast.parse((ROOT / TOLERANCES).read_text()).body[2:]
    assignments, reasons = body[::2], body[1::2]
    names = [node.targets[0].id for node in assignments if isinstance(node, ast.Assign)]  # type: ignore[attr-defined]
    assert len(names) == len(assignments) == len(reasons)
    assert all(isinstance(node, ast.Expr) and len(ast.literal_eval(node.value).split()) > 8 for node in reasons)
    sources = ((ROOT / name).read_text() for name in files(PRODUCT))
    imported = {
        alias.name
        for source in sources
        if "controller.model.tolerances" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module == "controller.model.tolerances"
        for alias in node.names
    }
    assert imported == set(names)


def test_numbers_of_ports_are_written_once() -> None:
    places: dict[str, list[str]] = {number: [] for number in NAMED}
    digits = re.compile("|".join("_?".join(number) for number in NAMED))
    for name in files(TREE):
        # Tokens are looked at in the few files only that have the digits anywhere.
        if not digits.search((ROOT / name).read_text()):
            continue
        with tokenize.open(ROOT / name) as file:
            for token in tokenize.generate_tokens(file.readline):
                number = token.string.replace("_", "")
                if token.type == tokenize.NUMBER and number in places:
                    places[number].append(name)
    assert places == {number: [place] if place else [] for number, (place, _) in NAMED.items()}
