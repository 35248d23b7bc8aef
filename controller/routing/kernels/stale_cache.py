"""Removal of compiled kernels that may contain former code of the kernels that they call.

Numba keeps a compiled function on disk until the file of that function changes. What it calls is compiled into it, also
from other files, and is not looked at: after an update of a checkout a kernel could go on with the former code of
another one. So all files that kernels are made of have one digest, kept beside the compiled kernels, and these are
removed where it differs. Compiled kernels elsewhere (``NUMBA_CACHE_DIR``) are not looked at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
FOLDERS = tuple(_ROOT / folder for folder in ("controller/routing/kernels", "controller/learning", "emulation/fluid"))
"""Where kernels are."""
CONSTANTS = tuple(
    _ROOT / f"controller/model/{name}.py" for name in ("assignment", "port_numbers", "tolerances", "units")
)
"""Other files whose values are compiled into kernels."""
DIGEST = "kernels.sha256"


def remove_stale_kernels(folders: Iterable[Path] = FOLDERS, constants: Iterable[Path] = CONSTANTS) -> None:
    """Remove the compiled kernels of these folders unless they are of the present files.

    Where they cannot be removed or the digest cannot be written, as in a read-only installation, nothing happens.
    """
    present = [folder for folder in folders if folder.is_dir()]
    digest = hashlib.sha256()
    for file in (*constants, *sorted(file for folder in present for file in folder.rglob("*.py"))):
        digest.update(file.read_bytes())
    rooms = (room for folder in present for room in (folder, *folder.rglob("*/")) if room.name != "__pycache__")
    for cache in (room / "__pycache__" for room in rooms):
        with suppress(OSError):
            _remove_others(cache, digest.hexdigest())


def _remove_others(cache: Path, digest: str) -> None:
    mark = cache / DIGEST
    if mark.is_file() and mark.read_text() == digest:
        return
    cache.mkdir(exist_ok=True)
    for compiled in (*cache.glob("*.nbi"), *cache.glob("*.nbc")):
        compiled.unlink(missing_ok=True)
    mark.write_text(digest)
