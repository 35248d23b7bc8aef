"""One class name has one meaning over the whole tree."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("controller", "emulation", "fairspine", "topologies", "benchmarks", "tests/campaigns")

SAME_IDEA = {
    "JobTimes": "the core's value and its HTTP document",
    "PlanTimes": "the core's value and its HTTP document",
    "Plan": "the core's value and its HTTP document of the same name, which the OpenAPI document shows",
    "JobShift": "the core's value and its HTTP document",
    "Schedule": "the core's value and its HTTP document",
}
"""Names that several classes may have, and why."""


def classes() -> dict[str, list[str]]:
    """Return the public classes of the tree: name -> places. A name with an underscore is its file's own."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_each_public_class_name_has_one_meaning() -> None:
    twice = {name: places for name, places in classes().items() if len(places) > 1}
    assert {name: twice[name] for name in twice.keys() - SAME_IDEA} == {}


def test_each_exception_is_still_needed() -> None:
    found = classes()
    assert [name for name in sorted(SAME_IDEA) if len(found[name]) < 2] == []
