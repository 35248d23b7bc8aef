"""One class name has one meaning over the whole tree, and names of values say what these are."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("agent", "controller", "emulation", "fairspine", "topologies", "benchmarks", "tests/campaigns")

SAME_IDEA = {
    "JobTimes": "the core's value and its HTTP document",
    "PlanTimes": "the core's value and its HTTP document",
    "Plan": "the core's value and its HTTP document of the same name, which the OpenAPI document shows",
    "JobShift": "the core's value and its HTTP document",
    "Schedule": "the core's value and its HTTP document",
}
"""Names that several classes may have, and why."""


# Parsing all files takes most of the time: only those are parsed whose text has what is looked for.
CLASS = re.compile(r"^\s*class\s+([^\W_]\w*)", re.MULTILINE)


@functools.cache
def classes() -> dict[str, list[str]]:
    """Return the public classes that several places define: name -> places.

    A name with an underscore is its file's own.
    """
    texts = {path: path.read_text() for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
    count = Counter(name for text in texts.values() for name in CLASS.findall(text))
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in texts.items():
        if any(count[name] > 1 for name in CLASS.findall(text)):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef) and count[node.name] > 1:
                    places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return {name: at for name, at in places.items() if len(at) > 1}


def test_each_public_class_name_has_one_meaning() -> None:
    assert {name: places for name, places in classes().items() if name not in SAME_IDEA} == {}


def test_each_exception_is_still_needed() -> None:
    assert SAME_IDEA.keys() <= classes().keys()


PRODUCT = ("controller", "emulation", "fairspine", "topologies")
SAYS_NOTHING = {"found", "told"}
NAMED_SO = {"controller/cli/local/machine_checks.py": "a key of the JSON of 'fairspine doctor'"}


def bound(source: str) -> set[str]:
    """Return the names that a module gives to variables, arguments, attributes, functions and classes."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
    return names


def test_no_value_of_the_product_is_named_by_how_it_was_come_by() -> None:
    files = [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in files}
    suspects = {file: text for file, text in texts.items() if any(word in text for word in SAYS_NOTHING)}
    bad = {file for file, text in suspects.items() if {name.strip("_") for name in bound(text)} & SAYS_NOTHING}
    assert bad == NAMED_SO.keys()


def test_names_are_seen_wherever_they_are_given() -> None:
    source = "def f(a, *, b=1):\n    c = 1\n    self.d, e = 1, 2\n    for g in h: (i := g)\nclass J: k: int\n"
    assert bound(source) == {"f", "a", "b", "c", "d", "e", "g", "i", "J", "k"}
