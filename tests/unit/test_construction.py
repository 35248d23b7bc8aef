"""The controller is constructed from top to bottom: each part from those before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPOSING = {"controller/app.py": "FairspineApp", "controller/openflow_southbound.py": "OpenFlowSouthbound"}
"""The classes that make the parts of the running controller and connect them."""


def methods_of(source: str, name: str) -> dict[str, ast.FunctionDef]:
    """Return the methods and properties of a class."""
    (found,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    return {each.name: each for each in found.body if isinstance(each, ast.FunctionDef)}


def own(node: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    """Yield the attributes of ``self`` that a piece of code reads (``ast.Load``) or sets (``ast.Store``)."""
    for each in ast.walk(node):
        if (
            isinstance(each, ast.Attribute)
            and isinstance(each.ctx, context)
            and isinstance(each.value, ast.Name)
            and each.value.id == "self"
        ):
            yield each.attr


def needed(node: ast.AST, methods: dict[str, ast.FunctionDef], seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the attributes that a piece of code reads, itself or in the methods that it calls or passes on."""
    for name in own(node, ast.Load):
        if name not in methods:
            yield name
        elif name not in seen:
            yield from needed(methods[name], methods, seen | {name})


def read_before_set(source: str, name: str) -> list[str]:
    """Return the attributes that the constructor needs, now or in a callback, before it has set them."""
    methods, there, found = methods_of(source, name), set[str](), list[str]()
    for statement in methods["__init__"].body:
        found += [each for each in needed(statement, methods) if each not in there]
        there.update(own(statement, ast.Store))
    return found


@pytest.mark.parametrize(("file", "name"), COMPOSING.items())
def test_each_part_is_made_from_parts_that_are_there(file: str, name: str) -> None:
    source = (ROOT / file).read_text()
    assert read_before_set(source, name) == []
    # A lambda would put off what it reads until something after it is there.
    assert [node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)] == []


def test_a_callback_that_needs_a_later_part_is_found() -> None:
    source = """
class Both:
    def __init__(self):
        self.first = First(changed=self._changed)
        self.second = Second(self.first)

    def _changed(self):
        self._tell()

    def _tell(self):
        self.second.update()
"""
    assert read_before_set(source, "Both") == ["second"]
    assert read_before_set(source.replace("self._changed)", "print)"), "Both") == []
