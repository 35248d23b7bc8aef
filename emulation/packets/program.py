"""The program of the packet engine: where it is, and how it is compiled (``python -m emulation.packets.program``)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from emulation.errors import LabError

SOURCES = Path(__file__).parent / "driver"
NAME = "fairspine-packets"
VARIABLE = "FAIRSPINE_PACKETS"
LIBRARIES = ("core", "network", "point-to-point")
"""The libraries of ns-3 that are linked. pkg-config would name more, which need packages that these do not."""

NOT_BUILT = "the packet engine is not built: make setup-referee (it needs the Debian packages libns3-dev and g++)"


def program_path() -> Path:
    """Return where the program belongs: FAIRSPINE_PACKETS, or else beside this Python."""
    return Path(os.environ.get(VARIABLE) or Path(sys.prefix) / "bin" / NAME)


def built_program() -> Path:
    """Return the program.

    Raises:
        LabError: it has not been built.
    """
    path = program_path()
    if not os.access(path, os.X_OK):
        raise LabError(NOT_BUILT)
    return path


def build() -> Path:
    """Compile the program and return where it is.

    Raises:
        LabError: a program or a library is missing, or it cannot be compiled.
    """
    if shutil.which("g++") is None:
        raise LabError("the packet engine needs a compiler: apt-get install g++ libns3-dev")
    path = program_path()
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    libraries = [f"-lns3-{name}" for name in LIBRARIES]
    command = ["g++", "-std=c++17", "-O2", "-o", str(unfinished), str(SOURCES / "main.cc"), *libraries]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            lines = [line for line in made.stderr.splitlines() if "error" in line] or made.stderr.splitlines()[-1:]
            raise LabError(f"the packet engine cannot be compiled (apt-get install libns3-dev): {' '.join(lines[:1])}")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


if __name__ == "__main__":
    try:
        print(build())
    except LabError as error:
        sys.exit(str(error))
