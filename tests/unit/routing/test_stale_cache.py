"""Compiled kernels are removed when any file that they are made of has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.routing.kernels.stale_cache import CONSTANTS, FOLDERS, remove_stale_kernels


def made(folder: Path, name: str) -> Path:
    """Return the cache of a new folder with one source, one compiled kernel, and Python's own compiled module."""
    cache = folder / name / "__pycache__"
    cache.mkdir(parents=True)
    (folder / name / "kernel.py").write_text("A = 1")
    for file in ("kernel.f-1.py311.nbi", "kernel.f-1.py311.1.nbc", "kernel.cpython-311.pyc"):
        (cache / file).touch()
    return cache


def compiled(cache: Path) -> set[str]:
    return {file.suffix for file in cache.iterdir()} & {".nbi", ".nbc", ".pyc"}


@pytest.mark.parametrize("changed", ["one/kernel.py", "two/kernel.py", "constants.py"])
def test_a_change_of_any_file_removes_all_kernels_and_only_these(tmp_path: Path, changed: str) -> None:
    one, two = made(tmp_path, "one"), made(tmp_path, "two")
    constants = tmp_path / "constants.py"
    constants.write_text("B = 1")
    folders = (one.parent, two.parent, tmp_path / "missing")
    remove_stale_kernels(folders, (constants,))
    assert compiled(one) == compiled(two) == {".pyc"}, "of an unknown origin"
    for cache in (one, two):
        (cache / "kernel.f-1.py311.nbi").touch()
    remove_stale_kernels(folders, (constants,))
    assert compiled(one) == compiled(two) == {".nbi", ".pyc"}
    (tmp_path / changed).write_text("C = 2")
    remove_stale_kernels(folders, (constants,))
    assert compiled(one) == compiled(two) == {".pyc"}


def test_what_kernels_are_made_of_exists() -> None:
    assert all(file.is_file() for file in CONSTANTS)
    assert all(folder.is_dir() for folder in FOLDERS)


def test_where_nothing_can_be_written_nothing_happens(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/__pycache__").write_text("a file in its place")
    remove_stale_kernels((tmp_path / "one",), ())
