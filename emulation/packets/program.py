"""The programs of the packet engine: where they are, and how they are compiled.

``python -m emulation.packets.program`` compiles both: the one with fairspine's own events, and that on ns-3.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from emulation.errors import LabError
from emulation.packets.settings import EventCore

SOURCES = Path(__file__).parent / "driver"
NAME = "fairspine-packets"
VARIABLE = "FAIRSPINE_PACKETS"
LIBRARIES = ("core", "network", "point-to-point")
"""The libraries of ns-3 that are linked. pkg-config would name more, which need packages that these do not."""

NEEDS = {EventCore.OWN: "g++", EventCore.NS3: "g++ libns3-dev"}
"""Debian packages of which each program is compiled."""

NOT_BUILT = "the packet engine is not built: make setup-referee (it needs the Debian packages {})"


def program_path(core: EventCore = EventCore.OWN) -> Path:
    """Return where a program belongs: FAIRSPINE_PACKETS, or else beside this Python; that on ns-3 ends with -ns3."""
    path = Path(os.environ.get(VARIABLE) or Path(sys.prefix) / "bin" / NAME)
    return path if core is EventCore.OWN else path.with_name(f"{path.name}-{core}")


def built_program(core: EventCore = EventCore.OWN) -> Path:
    """Return a program.

    Raises:
        LabError: it has not been built.
    """
    path = program_path(core)
    if not os.access(path, os.X_OK):
        raise LabError(NOT_BUILT.format(NEEDS[core]))
    return path


def build(core: EventCore = EventCore.OWN) -> Path:
    """Compile a program and return where it is.

    Raises:
        LabError: a program or a library is missing, or it cannot be compiled.
    """
    if shutil.which("g++") is None:
        raise LabError(f"the packet engine needs a compiler: apt-get install {NEEDS[core]}")
    path = program_path(core)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    of_ns3 = ["-DWITH_NS3", *(f"-lns3-{name}" for name in LIBRARIES)] if core is EventCore.NS3 else []
    command = ["g++", "-std=c++17", "-O2", "-o", str(unfinished), str(SOURCES / "main.cc"), *of_ns3]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            lines = [line for line in made.stderr.splitlines() if "error" in line] or made.stderr.splitlines()[-1:]
            raise LabError(
                f"the packet engine cannot be compiled (apt-get install {NEEDS[core]}): {' '.join(lines[:1])}"
            )
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


if __name__ == "__main__":
    try:
        for each in EventCore:
            print(build(each))
    except LabError as error:
        sys.exit(str(error))
