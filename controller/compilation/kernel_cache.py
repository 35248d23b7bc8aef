"""Removal of compiled kernels that may contain former code of what they were made of.

Numba keeps a compiled function on disk until the file of that function changes. What it calls, the constants that it
names and the order of the fields of its named tuples are compiled into it, also from other files, and these are not
looked at: after an update, a kernel could go on with the former code of another one, or read another field than it
names. So a *mark* is kept beside the compiled functions of each module: the hash of all files that the module imports,
directly or not, and of those that define the types of its arguments. Where it differs, they are removed.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
import orjson
from numba.core import event, types

from controller.compilation.sources import Sources

MARK = ".kernels.json"
"""Behind the name of the module."""


class KernelCache:
    """The compiled functions of a project on disk."""

    def __init__(self, root: Path, packages: Iterable[str]) -> None:
        """Begin; nothing is read or changed yet.

        Args:
            root: the folder that has the packages.
            packages: names of the packages with kernels.
        """
        self._root, self._packages = root.resolve(), tuple(packages)
        self._sources = Sources(self._root)
        self._begun = time.time()

    def remove_stale(self) -> None:
        """Remove the compiled functions of each module whose sources are others than when they were compiled.

        Where they cannot be removed, as in a read-only installation, nothing happens.
        """
        for folder in self._folders():
            with suppress(OSError):
                self._remove_stale(folder)

    def watch(self) -> None:
        """Mark what is compiled from now on, for the life of the process."""
        event.register("numba:compile", _Marking(self))  # type: ignore[no-untyped-call]

    def mark(self, module: Path, folder: Path, of_types: Iterable[Path]) -> None:
        """Write the mark of a module whose functions are about to be compiled.

        It is left out if some source is younger than the process, which may have loaded another one.

        Args:
            module: its file.
            folder: where Numba keeps its compiled functions.
            of_types: files that define types of arguments.
        """
        place = folder / (module.stem + MARK)
        with suppress(OSError):
            extra = {*self._read(place).get("types", []), *map(str, of_types)}
            files = self._files(module, extra)
            if any(file.stat().st_mtime > self._begun for file in files):
                place.unlink(missing_ok=True)
                return
            folder.mkdir(parents=True, exist_ok=True)
            content = {"module": str(module), "types": sorted(extra), "digest": self._digest(files)}
            beside = place.with_suffix(f".{os.getpid()}")
            beside.write_bytes(orjson.dumps(content))
            beside.replace(place)

    def contains(self, module: Path) -> bool:
        """Return whether a file is a module of one of the packages."""
        return any(module.is_relative_to(self._root / package) for package in self._packages)

    def _folders(self) -> Iterator[Path]:
        for package in self._packages:
            for place, folders, _ in os.walk(self._root / package):
                if "__pycache__" in folders:
                    yield Path(place, "__pycache__")
                folders[:] = [name for name in folders if name != "__pycache__"]
        user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "numba"
        chosen: str = getattr(numba.config, "CACHE_DIR", "")
        for elsewhere in (Path(chosen), user) if chosen else (user,):
            if elsewhere.is_dir():
                yield from (folder for folder in elsewhere.iterdir() if folder.is_dir())

    def _remove_stale(self, folder: Path) -> None:
        compiled: dict[str, list[Path]] = {}
        for file in (*folder.glob("*.nbi"), *folder.glob("*.nbc")):
            compiled.setdefault(file.name.partition(".")[0], []).append(file)
        for name, files in compiled.items():
            place = folder / (name + MARK)
            mark = self._read(place)
            # Beside the sources, it is certain to which module they belong; elsewhere, only the mark says so.
            module = folder.parent / f"{name}.py" if self.contains(folder) else Path(mark.get("module", ""))
            if not self.contains(module):
                continue
            if mark.get("digest") != self._digest(self._files(module, mark.get("types", []))):
                for file in (*files, place):
                    file.unlink(missing_ok=True)

    def _read(self, place: Path) -> dict[str, Any]:
        try:
            mark = orjson.loads(place.read_bytes())
        except (OSError, ValueError):
            return {}
        return mark if isinstance(mark, dict) else {}

    def _files(self, module: Path, of_types: Iterable[str]) -> list[Path]:
        return sorted(self._sources.of(module).union(map(Path, of_types)))

    def _digest(self, files: Iterable[Path]) -> str:
        digest = hashlib.sha256()
        for file in files:
            digest.update(self._sources.digest(file))
        return digest.hexdigest()


class _Marking(event.Listener):
    """Marks a module when one of its functions is compiled. Numba tells of compilation, and not of loading."""

    def __init__(self, kernels: KernelCache) -> None:
        self._kernels = kernels

    def on_start(self, happened: event.Event) -> None:
        dispatcher = happened.data["dispatcher"]
        module = Path(inspect.getfile(dispatcher.py_func)).resolve()
        folder = dispatcher.stats.cache_path
        if folder is not None and self._kernels.contains(module):
            files = (_file_of(kind) for kind in _classes(happened.data["args"]))
            self._kernels.mark(module, Path(folder), [file for file in files if file is not None])

    def on_end(self, happened: event.Event) -> None:
        """Do nothing: Numba requires the method."""


def _classes(kinds: Any) -> Iterator[type]:
    """Yield the classes of all named tuples among types of arguments, also of those within others."""
    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            yield from _classes(kind)
            if hasattr(kind, "instance_class"):
                yield kind.instance_class


def _file_of(kind: type) -> Path | None:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return None if file is None else Path(file).resolve()
