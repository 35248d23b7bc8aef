"""No test module imports another one: what several need is a fixture of a ``conftest.py`` or a helper."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HELD_IN = ("unit", "integration", "rig", "campaigns", "fake_switch", "package")


def imported(source: str) -> Iterator[str]:
    """Yield the dotted name of everything that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_tests(source: str) -> list[str]:
    """Return the test modules among what a module imports."""
    return [
        name
        for name in imported(source)
        if name.startswith("tests.")
        and name.rpartition(".")[2].startswith("test_")
        and (ROOT / (name.replace(".", "/") + ".py")).exists()
    ]


@pytest.mark.parametrize("folder", HELD_IN)
def test_no_module_imports_a_test_module(folder: str) -> None:
    files = sorted((ROOT / "tests" / folder).rglob("*.py"))
    assert files
    wrong = {str(path.relative_to(ROOT)): imported_tests(path.read_text()) for path in files}
    assert {path: names for path, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from tests.unit.test_names import classes",
        "import tests.unit.test_names",
        "from tests.unit import test_names",
        "def inside():\n    from tests.unit.test_names import classes",
    ],
)
def test_an_import_of_a_test_module_is_noticed(line: str) -> None:
    assert set(imported_tests(line)) == {"tests.unit.test_names"}
    assert imported_tests("from tests.rig.waiting import eventually") == []
