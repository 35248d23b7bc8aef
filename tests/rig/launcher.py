"""``ryu-manager`` with options that it must refuse."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from emulation.controller_process import RYU_MANAGER, ControllerProcess
from tests.documented import ROOT
from tests.rig.controller import forked
from tests.rig.http.client import PATIENCE_SECONDS


def refused(*args: str) -> str:
    """What ``ryu-manager`` says when it does not start; it must be one line, and the status 2."""
    with tempfile.NamedTemporaryFile("r") as log:
        process = ControllerProcess([RYU_MANAGER, *args], forked(Path(log.name), folder=ROOT)).start(wait=False)
        try:
            assert process.wait(PATIENCE_SECONDS) == 2, log.read()
        finally:
            process.kill()
        return one_line(log.read())


def refused_by_the_command(*args: str) -> str:
    """The same of the command itself, which says nothing on standard output.

    No ``ControllerProcess``: that has both outputs in one log.
    """
    command = [RYU_MANAGER, *args]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    return one_line(done.stderr)


def one_line(said: str) -> str:
    assert len(said.splitlines()) == 1, said
    return said.strip()
