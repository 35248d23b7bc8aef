"""Functions that write a file whole or not at all, and say what to do if it cannot be written."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from controller.model.errors import InputError


def write_bytes(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file piece by piece, whole or not at all.

    Raises:
        InputError: the file cannot be written; one of this name is as it was.
    """
    with naming_the_mend(path):
        if path.exists() and not path.is_file():
            # A device or a pipe cannot be replaced.
            with path.open("wb") as file:
                file.writelines(parts)
            return
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask()
        _replace(path.resolve(), parts, mode)


def replace_private(path: Path, text: str) -> None:
    """Replace a file atomically by a new one with mode 0600; concurrent readers see one of the two, complete.

    Raises:
        InputError: the file cannot be written.
    """
    with naming_the_mend(path):
        _replace(path.resolve(), [text.encode()], 0o600)


def _replace(path: Path, parts: Iterable[bytes], mode: int) -> None:
    # mkstemp makes it readable for its owner alone.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            if path.exists() and os.geteuid() == 0:
                # If root changes another user's file, that user must still be able to read it.
                owner = path.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            os.fchmod(file.fileno(), mode)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        # A signal that raises may come when the file has its new name already.
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _umask() -> int:
    """Return the process's mask of file modes, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_MENDS = {
    errno.ENOSPC: "free some space or choose another place",
    errno.EDQUOT: "free some space or choose another place",
    errno.EROFS: "choose another place",
    errno.EACCES: "choose another place, or run it as the owner of the folder",
    errno.ENOENT: "make its folder first",
    errno.EISDIR: "give the name of a file",
}


@contextmanager
def naming_the_mend(path: Path) -> Iterator[None]:
    """Turn an error of the operating system into one that names the path and what to do.

    Raises:
        InputError: the path cannot be written.
    """
    try:
        yield
    except OSError as error:
        mend = _MENDS.get(error.errno or 0)
        reason = f"cannot be written: {error.strerror or error}"
        raise InputError(reason + (f"; {mend}" if mend else ""), source=str(path)) from None
