"""Disks of a test's own, in a mount namespace of its own, which end with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rig.waiting import READY_SECONDS, eventually


class OwnDisk:
    """A folder that is a disk for the programs that ``inside`` runs.

    Args:
        folder: made here.
        process: one that is in the namespace, and keeps it.
    """

    def __init__(self, folder: Path, process: int) -> None:
        self.folder = folder
        self._enter = ["nsenter", f"--mount=/proc/{process}/ns/mnt", "--"]

    def inside(self, *command: str) -> list[str]:
        """The command that runs another one where the disk is mounted."""
        return [*self._enter, *command]

    def run(self, *command: str) -> str:
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, timeout=READY_SECONDS, check=False)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def mount(self, *options: str) -> None:
        self.run("mount", *options, str(self.folder))

    def is_writable(self) -> bool:
        """Return whether a file can be made on it."""
        return subprocess.run(self.inside("touch", str(self.folder / "file")), capture_output=True).returncode == 0

    def fill(self) -> None:
        """Use up what is left of it."""
        filler = str(self.folder / "filler")
        subprocess.run(self.inside("dd", "if=/dev/zero", f"of={filler}", "bs=4096"), capture_output=True, check=False)

    def make_room(self) -> None:
        """Take back ``fill``."""
        self.run("rm", str(self.folder / "filler"))


@contextmanager
def own_disk(folder: Path) -> Iterator[OwnDisk]:
    """A mount namespace with nothing mounted in it yet (as root)."""
    lacking = "these tests mount a disk, and only root can" if os.geteuid() != 0 else ""
    if not lacking and shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/sbin:/usr/sbin") is None:
        lacking = "mkfs.ext4 is not installed (e2fsprogs)"
    if lacking and os.environ.get("CI") == "true":
        pytest.fail(lacking)
    if lacking:
        pytest.skip(lacking)
    folder.mkdir()
    with subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sleep", "infinity"]) as keeper:
        try:
            here = os.readlink("/proc/self/ns/mnt")
            eventually(lambda: os.readlink(f"/proc/{keeper.pid}/ns/mnt") != here, "there is a namespace")
            yield OwnDisk(folder, keeper.pid)
        finally:
            keeper.kill()
