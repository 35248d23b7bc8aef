"""The store on a disk that fills up and becomes read-only. A program, for a mount namespace of its own (as root):

    unshare --mount python -m tests.rig.store.on_small_disk FOLDER

mounts a small disk at FOLDER, and prints what it has seen as JSON.
"""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from controller.core.saved.saved_state import StateChange
from controller.store.errors import StoreError
from controller.store.store import Store
from tests.rig.store.writer import PLANS_KEPT, step

DISK = "4m"
DOCUMENT_BYTES = 300_000
ENOUGH = 50
"""More changes of that size than the disk can hold."""


def large(number: int) -> StateChange:
    """``step`` with a document that no disk of this size holds many of."""
    change = step(number)
    (job,) = change.put
    return replace(change, put=(replace(job, document=np.random.default_rng(number).bytes(DOCUMENT_BYTES)),))


def commit_until_refused(store: Store, number: int) -> tuple[int, str]:
    """Commit ``large(number)`` and so on; the first that is refused, and why."""
    for refused in range(number, number + ENOUGH):
        try:
            store.commit(large(refused))
        except StoreError as error:
            return refused, str(error)
    raise AssertionError("the disk took everything")


def fill(file: Path) -> None:
    """Use up what is left of the disk."""
    with file.open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC


def reopened(url: str) -> str:
    """What comes of opening a store: an epoch, or an error."""
    try:
        with closing(Store.open(url, plans_kept=PLANS_KEPT)) as store:
            return str(store.load().epoch)
    except StoreError as error:
        return str(error)


def main() -> None:
    folder = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)], check=True)
    url, filler = f"sqlite:///{folder}/kept/kept.db", folder / "filler"
    seen: dict[str, Any] = {}
    with closing(Store.open(url, plans_kept=PLANS_KEPT)) as store:
        store.commit(step(1))
        fill(filler)
        refused, seen["full"] = commit_until_refused(store, 2)
        kept = store.load()
        seen["read on a full disk"] = [kept.epoch - refused, kept.plan is not None, len(store.plans()) > 0]
        filler.unlink()
        store.commit(step(refused))
        seen["after there was room"] = store.load().epoch - refused
    fill(filler)
    seen["opened on a full disk"] = reopened(url)
    filler.unlink()
    seen["opened with room"] = int(reopened(url)) - refused
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    seen["opened on a read-only disk"] = reopened(url)
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
    seen["opened again"] = int(reopened(url)) - refused
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
