"""Starts the process of many switches, and gives it commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


class Fakes:
    """A symmetric Clos of switches that connect to each of these ports of 127.0.0.1. Use it as a context manager."""

    def __init__(self, leaves: int, spines: int, hosts_per_leaf: int, *ports: int) -> None:
        argv = [str(each) for each in (leaves, spines, hosts_per_leaf, *ports)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fake_switch.raw.process", *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def __enter__(self) -> Fakes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def do(self, command: str, **arguments: Any) -> Any:
        """Carry out a command (``do_...`` in ``process.py``); its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": command, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"the fake switches have ended at the command {command}")
        return json.loads(line)
