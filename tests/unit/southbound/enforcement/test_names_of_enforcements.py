"""No file of the product but those of the enforcements knows one by its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS, DEFAULT_ENFORCEMENT
from controller.southbound.enforcement.registry import BUILT_IN

ROOT = Path(__file__).parents[4]
NAME = re.compile(rf"\b({'|'.join(BUILT_IN_ENFORCEMENTS)})\b")
JOINT = re.compile(r"""["']\s*[rbf]*["']""")
"""Between two literals that Python makes one string of."""
KNOWING = {
    "controller/model/choices/enforcement.py": "the list of the built-in ones",
    "controller/store/migrations/__init__.py": "stores of that time held plans of one enforcement",
    "benchmarks/running/agents.py": "agents of hosts follow one enforcement",
    "benchmarks/running/probed_ports.py": "it measures this enforcement",
    "controller/cli/local/exporting.py": "the command that configures routers",
    "controller/southbound/srv6/formats.py": "a word of the languages of routers",
    **{f"controller/southbound/enforcement/{name}.py": "the enforcement itself" for name in BUILT_IN_ENFORCEMENTS},
}


def strings(file: Path) -> Iterator[str]:
    """The strings of a Python file without its docstrings and those beside attributes; the whole text of others."""
    text = file.read_text()
    if file.suffix != ".py":
        yield text
        return
    # Parsing all files takes most of the time, and few name one at all.
    if not NAME.search(text) and not NAME.search(JOINT.sub("", text)):
        return
    tree = ast.parse(text)
    said = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_only_the_files_of_an_enforcement_name_it() -> None:
    folders = ("controller", "emulation", "fairspine", "topologies", "benchmarks", "scripts")
    files = [file for folder in folders for kind in ("py", "js", "html") for file in (ROOT / folder).rglob(f"*.{kind}")]
    knowing = {str(file.relative_to(ROOT)) for file in files if any(map(NAME.search, strings(file)))}
    assert knowing == set(KNOWING)


def test_the_list_is_that_of_the_registry_and_begins_with_the_default() -> None:
    assert tuple(BUILT_IN) == BUILT_IN_ENFORCEMENTS
    assert BUILT_IN_ENFORCEMENTS[0] == DEFAULT_ENFORCEMENT
