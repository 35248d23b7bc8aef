"""No modules import each other in a circle: not inside functions, and not for types only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import grimp
import networkx as nx
import pytest

PACKAGES = ("agent", "controller", "emulation", "fairspine", "topologies")


def circles(packages: Iterable[str]) -> list[list[str]]:
    """Return the modules of each circle of imports, wherever in a file they are made."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    imports = nx.DiGraph(
        (module, imported) for module in graph.modules for imported in graph.find_modules_directly_imported_by(module)
    )
    return sorted(sorted(circle) for circle in nx.strongly_connected_components(imports) if len(circle) > 1)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(PACKAGES) == []


@pytest.mark.parametrize(
    "back",
    [
        "import circled.first",
        "from circled.first import A",
        "from circled import first",
        "def late():\n    from circled import first\n    return first",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from circled.first import A",
    ],
)
def test_a_circle_is_seen_wherever_an_import_stands(back: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "circled"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("from circled import second\nA = second\n")
    (package / "second.py").write_text("from circled import third\n")
    (package / "third.py").write_text(f"{back}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert circles(["circled"]) == [["circled.first", "circled.second", "circled.third"]]
