"""The files of the project that a module is made of: its own, and those that it imports, directly or not."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>[\w.]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]*)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))",
    re.MULTILINE,
)
"""An import statement anywhere in a file. It also matches text in strings that looks like one: then a file more counts.
Parsing would take ten times as long, at each start of a process."""


class Sources:
    """The texts of the project's modules, each read once, and what they import."""

    def __init__(self, root: Path) -> None:
        """Begin; ``root`` is the folder that has the packages."""
        self._root = root
        self._texts: dict[Path, bytes] = {}
        self._digests: dict[Path, bytes] = {}
        self._imports: dict[Path, tuple[Path, ...]] = {}
        self._known: dict[str, Path | None] = {}

    def text(self, file: Path) -> bytes:
        """Return the content of a file; nothing if it cannot be read."""
        if file not in self._texts:
            try:
                self._texts[file] = file.read_bytes()
            except OSError:
                self._texts[file] = b""
        return self._texts[file]

    def digest(self, file: Path) -> bytes:
        """Return a hash of the content of a file."""
        if file not in self._digests:
            self._digests[file] = hashlib.sha256(self.text(file)).digest()
        return self._digests[file]

    def of(self, file: Path) -> set[Path]:
        """Return the file of a module, and those of all modules of the project that it needs.

        A package counts with its ``__init__.py`` where it is imported itself, and not where a module in it is.
        """
        reached, waiting = {file}, [file]
        while waiting:
            for each in self._imported(waiting.pop()):
                if each not in reached:
                    reached.add(each)
                    waiting.append(each)
        return reached

    def _imported(self, file: Path) -> tuple[Path, ...]:
        if file not in self._imports:
            text = self.text(file).decode(errors="replace")
            parts = self._package(file)
            places = (self._file(name) for match in _IMPORT.finditer(text) for name in _modules(match, parts))
            self._imports[file] = tuple(dict.fromkeys(place for place in places if place is not None))
        return self._imports[file]

    def _package(self, file: Path) -> tuple[str, ...]:
        return file.relative_to(self._root).parent.parts if file.is_relative_to(self._root) else ()

    def _file(self, module: str) -> Path | None:
        if module not in self._known:
            above = module.rpartition(".")[0]
            # Names of other projects, and of what modules define, have no folder here: one look-up serves for all.
            inside = not above or os.path.isdir(self._place(above))
            self._known[module] = self._look_up(module) if inside else None
        return self._known[module]

    def _look_up(self, module: str) -> Path | None:
        place = self._place(module)
        for file in (f"{place}.py", os.path.join(place, "__init__.py")):
            if os.path.isfile(file):
                return Path(file)
        return None

    def _place(self, module: str) -> str:
        return os.path.join(self._root, *module.split("."))


def _modules(match: re.Match[str], package: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of all modules that a statement may import: ``from a import b`` may import a and a.b."""
    if match["modules"] is not None:
        for each in match["modules"].split(","):
            yield from each.split()[:1]
        return
    source = match["source"]
    above = len(source) - len(source.lstrip("."))
    if above:
        source = ".".join([*package[: len(package) - above + 1], *filter(None, [source.lstrip(".")])])
    yield source
    names = re.sub(r"#[^\n]*", "", match["names"]).strip("()")
    for each in names.split(","):
        yield from (f"{source}.{name}" for name in each.split()[:1])
