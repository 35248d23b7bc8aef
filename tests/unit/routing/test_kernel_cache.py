"""Compiled kernels are removed when any file that they are made of has changed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from controller.compilation import PACKAGES, ROOT
from controller.compilation.sources import Sources

FIELDS = """
from typing import NamedTuple
class Pair(NamedTuple):
    {one}: int
    {two}: int
"""
KERNEL = """
from numba import njit
{imports}
from toy.constants import FACTOR
@njit(cache=True)
def combined(pair):
    return pair.tens * FACTOR + called(pair.ones)
"""
RUN = """
from pathlib import Path
from controller.compilation.kernel_cache import KernelCache
cache = KernelCache(Path("."), ["toy"])
cache.remove_stale()
cache.watch()
from toy.fields import Pair
from toy.kernel import combined
print(combined(Pair(tens=1, ones=2)), sum(combined.stats.cache_misses.values()))
"""


class Toy:
    """A package with one kernel that takes a named tuple of another module, which it does not import."""

    def __init__(self, root: Path, variables: dict[str, str]) -> None:
        self.root, self._variables = root, variables
        self.write("__init__", "")
        self.write("constants", "FACTOR = 10")
        self.write("called", "from numba import njit\n@njit(cache=True)\ndef called(x):\n    return x")
        self.write("fields", FIELDS.format(one="tens", two="ones"))
        self.write("kernel", KERNEL.format(imports="from toy.called import called"))

    def write(self, module: str, text: str) -> None:
        file = self.root / "toy" / f"{module}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        # As an earlier edit: Python's own cache, too, has a resolution of a second.
        earlier = file.stat().st_mtime - 100 + 10 * len(text) / 1000
        os.utime(file, (earlier, earlier))

    def run(self) -> tuple[int, int]:
        """Return the kernel's result in a new process, and how many times it was compiled."""
        environment = {**os.environ, "PYTHONPATH": f"{self.root}:{ROOT}", **self._variables}
        command = [sys.executable, "-B", "-c", RUN]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        result, compiled = map(int, done.stdout.split())
        return result, compiled


def toy_in(folder: Path, *, elsewhere: bool = False) -> Toy:
    """Return the package in a folder; with ``elsewhere``, its compiled kernels are in another one."""
    cache = str(folder / "cache") if elsewhere else ""
    return Toy(folder, {"NUMBA_CACHE_DIR": cache, "XDG_CACHE_HOME": str(folder / "user")})


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_change_of_what_a_kernel_is_made_of_compiles_it_again_and_nothing_else_does(
    tmp_path: Path, elsewhere: bool
) -> None:
    toy = toy_in(tmp_path, elsewhere=elsewhere)
    assert toy.run() == (12, 1)
    assert toy.run() == (12, 0)
    toy.write("fields", FIELDS.format(one="ones", two="tens"))
    assert toy.run() == (12, 1), "it reads fields by position"
    toy.write("constants", "FACTOR = 100")
    assert toy.run() == (102, 1)
    toy.write("called", "from numba import njit\n@njit(cache=True)\ndef called(x):\n    return x + 5")
    assert toy.run() == (107, 1)
    toy.write("unrelated", "A = 1")
    assert toy.run() == (107, 0)


def test_kernels_without_a_mark_are_of_an_unknown_origin_and_other_files_stay(tmp_path: Path) -> None:
    toy = toy_in(tmp_path)
    toy.run()
    (mark,) = tmp_path.rglob("kernel.kernels.json")
    other = mark.with_name("other.cpython-311.pyc")
    other.touch()
    mark.unlink()
    assert toy.run() == (12, 1)
    assert other.exists()


def test_imports_of_any_form_are_followed(tmp_path: Path) -> None:
    forms = {
        "a": "from p import b\nimport p.c, p.d as x\n",
        "b": "def f():\n    from p.inner.e import (\n        ONE,  # a comment, with a comma\n        TWO,\n    )\n",
        "c": "from . import f\n",
        "d": "from .inner import g\nimport numpy\n",
        "inner/__init__": "",
        "inner/e": "from ..c import X\n",
        "inner/g": "from p import a\n",
        "f": "",
        "unrelated": "",
    }
    for name, text in forms.items():
        file = tmp_path / "p" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "p/__init__.py").write_text("")
    reached = {str(file.relative_to(tmp_path / "p")) for file in Sources(tmp_path).of(tmp_path / "p/a.py")}
    assert reached == {"__init__.py", *(f"{name}.py" for name in forms if name != "unrelated")}


def test_every_module_with_kernels_has_stale_ones_removed_before_one_is_used() -> None:
    sources, prepared = Sources(ROOT), ROOT / "controller/compilation/__init__.py"
    modules = [
        file
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        if re.search(r"njit\(|import without_runtime|import .*\binlined\b", file.read_text())
    ]
    assert len(modules) > 30
    for module in modules:
        loaded = {file for each in [module, *sources.of(module)] for file in [each, *_packages(each)]}
        reached = set().union(*(sources.of(file) for file in loaded))
        assert prepared in reached, module


def _packages(module: Path) -> list[Path]:
    """Return what Python runs before a module: the packages that it is in."""
    return [folder / "__init__.py" for folder in module.parents if folder.is_relative_to(ROOT) and folder != ROOT]


def test_loading_kernels_leaves_scipy_out_and_others_products_of_matrices_find_it() -> None:
    program = """
import sys
import controller.routing
assert "scipy.linalg" not in sys.modules
import numba, numpy as np
product = numba.njit(lambda a, b: np.dot(a, b))
print(product(np.eye(2), np.full((2, 2), 3.0)).tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[[3.0, 3.0], [3.0, 3.0]]\n"
