"""The walks through the code in docs/explanation/architecture.md name what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs/explanation/architecture.md"
NAMED = sorted(set(re.findall(r"`([a-z_/]+\.py)(?::([A-Za-z_.]+))?`", DOCUMENT.read_text())))


def names_in(path: Path) -> set[str]:
    """Return functions and classes of a module, and methods as ``Class.method``."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found.update(f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef))
    return found


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_file_and_function_that_the_architecture_names_exists(file: str, name: str) -> None:
    places = [
        ROOT / file,
        ROOT / "controller" / file,
        ROOT / "controller/southbound" / file,
        ROOT / "controller/service" / file,
    ]
    path = next((each for each in places if each.is_file()), None)
    assert path is not None, file
    assert not name or name in names_in(path), f"{file} has no {name}"


def test_the_two_walks_are_numbered_lists_of_files_and_functions() -> None:
    steps = re.findall(r"(?m)^(\d+)\. (.*(?:\n {3,}.*)*)", DOCUMENT.read_text())
    starts = [n for n, (number, _) in enumerate(steps) if number == "1"]
    assert len(starts) == 2
    assert all(re.search(r"`[a-z_/]+\.py:\w+", text) for _, text in steps)
