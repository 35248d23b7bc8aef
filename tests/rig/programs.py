"""The installed commands of this environment, and the same in the process of the tests."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

from controller.cli.main import main

FAIRSPINE = str(Path(sys.executable).with_name("fairspine"))


def fairspine(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of fairspine here, and return what ``subprocess.run`` would.

    A process of its own would load Python and the modules of the command anew, which takes longer than most commands:
    only for tests of signals, of scripts and of the start.
    """
    out, err = io.StringIO(), io.StringIO()
    code: str | int | None = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int), code
    return subprocess.CompletedProcess([FAIRSPINE, *arguments], code, out.getvalue(), err.getvalue())
