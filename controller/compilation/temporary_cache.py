"""A temporary folder for compiled kernels, where no other folder can be written.

Numba keeps compiled functions in the folder of NUMBA_CACHE_DIR, else beside their sources, else in the user's cache
folder. A service user often has none of these, and Numba then refuses to compile at all. The folder here is a last
resort: it belongs to one process and those that it starts, and is removed at its end, so kernels are compiled in each
run. Its name is not predictable, since whoever can write compiled functions can run code as this user.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from numba.core import caching

from controller.model.errors import InputError

TEXT = (
    "compiled kernels are kept in {folder} until this program ends, because no other folder can be written: "
    "set NUMBA_CACHE_DIR to one, so that they are compiled only once"
)


def offer_temporary_cache(packages: tuple[str, ...]) -> None:
    """Let kernels of these packages be compiled to a temporary folder, if there is no other one."""

    class Locator(_TemporaryLocator):
        """The locator for these packages."""

        prefixes = tuple(f"{package}." for package in packages)

    caching.CacheImpl._locator_classes.append(Locator)


def lasting_cache(function: Callable[..., Any]) -> Path | None:
    """Return the folder in which Numba keeps a function for later runs, ``None`` if none can be written."""
    source = function.__code__.co_filename
    locators: list[Any] = [*caching.CacheImpl._locator_classes]
    for locator in locators:
        if issubclass(locator, _TemporaryLocator):
            continue
        place = locator.from_function(function, source)
        if place is not None:
            return Path(place.get_cache_path())
    return None


class _TemporaryLocator(caching.UserProvidedCacheLocator):
    """Places functions in the temporary folder."""

    prefixes: tuple[str, ...] = ()

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        subpath: str = self.get_suitable_cache_subpath(py_file)  # type: ignore[no-untyped-call]
        self._cache_path = os.path.join(_folder(), subpath)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _TemporaryLocator | None:
        """Return the place of a function; ``None`` if it is of another package."""
        return cls(py_func, py_file) if py_func.__module__.startswith(cls.prefixes) else None


@cache
def _folder() -> str:
    """Make the folder, and tell the user; processes that this one starts will use it, too.

    Raises:
        InputError: there is no folder for temporary files.
    """
    try:
        folder = tempfile.mkdtemp(prefix="fairspine-kernels-")
    except OSError:
        raise InputError(
            "no folder for compiled kernels can be written, not even a temporary one; set it to a folder that this "
            "user can write",
            field="NUMBA_CACHE_DIR",
            value=os.environ.get("NUMBA_CACHE_DIR"),
        ) from None
    os.environ["NUMBA_CACHE_DIR"] = folder
    atexit.register(partial(_remove, folder, os.getpid()))
    logging.getLogger("fairspine").warning(TEXT.format(folder=folder))
    return folder


def _remove(folder: str, owner: int) -> None:
    """Remove the folder at the end of the process that made it, and of no fork of it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
