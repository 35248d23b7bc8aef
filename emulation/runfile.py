"""Record of the resources of a lab, kept in a file, so that the next start can remove them even after ``kill -9``.

Each lab has a folder ``/run/fairspine/PID-STARTED-TOKEN``, named after the process that owns it. It holds the sockets
and the database of its switches, and ``run.json``: the processes, the interfaces and their network namespace.
A folder whose owner is gone is swept: its processes are ended by id and start time or by their label (processes.py),
its interfaces deleted if they are in our own namespace (any other goes with its last process), the folder removed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from emulation.errors import LabError
from emulation.processes import Identity, identity, is_alive, kill_all, labelled

RUN_FOLDER_VARIABLE = "FAIRSPINE_RUN"
_FOLDER_NAME = re.compile(r"(\d+)-(\d+)-[0-9a-f]+")
_SWEEPS = 5


def run_folder() -> Path:
    """Return the folder of all labs of this process namespace, within which process ids are unique."""
    return Path(os.environ.get(RUN_FOLDER_VARIABLE, "/run/fairspine"))


def own_netns() -> int:
    """Return the inode number of the network namespace of this thread."""
    return os.stat("/proc/thread-self/ns/net").st_ino


class RunFile:
    """The record of one lab, current at every moment."""

    def __init__(self) -> None:
        """Create the folder of a new lab and its record.

        Raises:
            LabError: the folder cannot be created.
        """
        me = identity(os.getpid())
        assert me is not None
        self.label = f"{me.pid}-{me.started}-{secrets.token_hex(3)}"
        self.folder = run_folder() / self.label
        try:
            self.folder.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise LabError(f"{self.folder} cannot be made: {error.strerror}") from None
        self._record: dict[str, Any] = {"netns": own_netns(), "boot": _boot(), "processes": {}, "interfaces": []}
        self._write()

    def add_process(self, name: str, pid: int) -> None:
        """Add a process to the record, if it still runs."""
        process = identity(pid)
        if process is not None:
            self._record["processes"][f"{name}/{pid}"] = [process.pid, process.started]
            self._write()

    def add_interfaces(self, names: Iterable[str]) -> None:
        """Add network interfaces to the record."""
        self._record["interfaces"] += names
        self._write()

    def sweep(self) -> None:
        """End and remove all that is recorded here and still there."""
        _sweep(self.folder)

    def _write(self) -> None:
        fresh = self.folder / "run.json.new"
        fresh.write_text(json.dumps(self._record, indent=1))
        fresh.replace(self.folder / "run.json")


def sweep_dead() -> list[str]:
    """Remove the resources of labs whose owner has ended without doing so; return the labels of those labs.

    Raises:
        LabError: a process of such a lab cannot be ended.
    """
    swept = []
    for folder in sorted(run_folder().glob("*-*-*")):
        name = _FOLDER_NAME.fullmatch(folder.name)
        if name is not None and not is_alive(Identity(int(name[1]), int(name[2]))):
            _sweep(folder)
            swept.append(folder.name)
    return swept


def _sweep(folder: Path) -> None:
    try:
        record = json.loads((folder / "run.json").read_text())
    except OSError:
        # Its owner was killed before it had made anything.
        record = {"netns": 0, "boot": "", "processes": {}, "interfaces": []}
    if record["boot"] == _boot():
        recorded = [Identity(pid, started) for pid, started in record["processes"].values()]
        # A process can start another one while we look: look until there is none.
        for _ in range(_SWEEPS):
            left = {process for process in recorded if is_alive(process)} | set(labelled(folder.name))
            if not left:
                break
            kill_all(sorted(left, key=lambda process: process.pid))
        else:
            raise LabError(f"processes of the lab {folder.name} cannot be ended: {sorted(p.pid for p in left)}")
        if record["netns"] == own_netns():
            delete_interfaces(record["interfaces"])
    shutil.rmtree(folder, ignore_errors=True)


def delete_interfaces(names: Iterable[str]) -> None:
    """Delete those of the interfaces that are in this namespace (and with each the other end of its cable)."""
    there = {line.split(":")[1].split("@")[0].strip() for line in _ip("-o", "link", "show").splitlines()}
    commands = "".join(f"link delete dev {name}\n" for name in names if name in there)
    if commands:
        # Deleting one end takes the other with it, so that some are gone when their turn comes: hence -force.
        _ip("-force", "-batch", "-", text=commands)


def _ip(*args: str, text: str = "") -> str:
    return subprocess.run(["ip", *args], input=text, capture_output=True, text=True, check=False).stdout


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
