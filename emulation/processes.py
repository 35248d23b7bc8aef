"""Children of the lab: each with a log, a label by which its descendants are found, and an end.

A process is known by its id *and* its start time: ids come back, the pair does not (until the next boot).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from emulation.errors import LabError

LABEL = "FAIRSPINE_LAB"
"""Environment variable of every child process of a lab, inherited by the processes that it starts."""

POLL_SECONDS = 0.02
LONGEST_PAUSE = 0.25
"""Seconds between two looks at something that takes long: what is asked also needs the processor to get there."""
PART_OF_WAIT = 0.1
TAIL_LINES = 15
FIRST = -8
"""Nice value of a process that runs before the others."""


class Pauses:
    """Pauses between looks at something that is waited for: the longer it takes, the longer they are."""

    def __init__(self) -> None:
        """Begin to wait."""
        self._begin = time.monotonic()

    def sleep(self) -> None:
        """Sleep until the next look."""
        waited = time.monotonic() - self._begin
        time.sleep(min(max(POLL_SECONDS, PART_OF_WAIT * waited), LONGEST_PAUSE))


@dataclass(frozen=True, slots=True)
class Identity:
    """A process: its id and when it started (clock ticks since boot, field 22 of proc_pid_stat(5))."""

    pid: int
    started: int


def identity(pid: int) -> Identity | None:
    """Return the process that has this id now; ``None`` if there is none, or only a zombie."""
    try:
        # The second field is the command in brackets and may itself hold spaces and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]))


def is_alive(process: Identity) -> bool:
    """Return whether exactly this process still runs."""
    return identity(process.pid) == process


def labelled(label: str) -> list[Identity]:
    """Every process that carries the label of a lab, started by it or by a child of its."""
    wanted = f"{LABEL}={label}".encode()
    processes = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        process = identity(int(entry))
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if process is not None and wanted in environment and is_alive(process):
            processes.append(process)
    return processes


def kill_all(processes: Sequence[Identity], *, timeout: float = 5.0) -> list[Identity]:
    """Kill exactly these processes and wait until they have ended; return those that have not."""
    for process in processes:
        if is_alive(process):
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    deadline = time.monotonic() + timeout
    left = [process for process in processes if is_alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        left = [process for process in left if is_alive(process)]
    return left


class Process(Protocol):
    """The part of ``subprocess.Popen`` that ``Child`` uses."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


Popen = Callable[..., Process]
"""Starts a process, called as ``subprocess.Popen`` is."""


class Child:
    """A process in a new session, so that it gets no Ctrl-C of the terminal, with its output in a log file."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        env: Mapping[str, str],
        *,
        append: bool,
        popen: Popen = subprocess.Popen,
    ) -> None:
        """Start the process by ``popen``."""
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab" if append else "wb") as output:
            try:
                self._process = popen(
                    argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(env), start_new_session=True
                )
            except OSError as error:
                raise LabError(f"{name} cannot be started: {argv[0]}: {error.strerror}") from None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def exit_status(self) -> int | None:
        """``None`` while it runs; minus the number of the signal that ended it."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if the process still runs."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, timeout: float) -> int:
        """Wait until the process has ended by itself, and return its exit status.

        Raises:
            LabError: it still runs after ``timeout`` seconds.
        """
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.name} has not ended within {timeout:g} s{self.tail()}") from None

    def run_first(self) -> None:
        """Let it, and what it starts from now on, run before other processes (``run_first``)."""
        run_first(self.pid)

    def stop(self, timeout: float = 5.0) -> int:
        """SIGTERM, and SIGKILL if that is not heeded in time. Returns the exit status."""
        # A stopped process would not get to see the SIGTERM.
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL. Returns the exit status."""
        self.signal(signal.SIGKILL)
        return self._process.wait()

    def wait_until(self, ready: Callable[[], bool], what: str, timeout: float) -> None:
        """Wait until something that depends on this process is so.

        Raises:
            LabError: the process ended, or the time is up; with the end of its log.
        """
        deadline, pauses = time.monotonic() + timeout, Pauses()
        while not ready():
            status = self.exit_status()
            if status is not None:
                raise LabError(f"{self.name} ended with status {status} before {what}{self.tail()}")
            if time.monotonic() > deadline:
                raise LabError(f"not within {timeout:g} s: {what}{self.tail()}")
            pauses.sleep()

    def tail(self) -> str:
        """Return the end of the log, in the form of the end of an error message."""
        return tail_of(self.log)


def run_first(pid: int) -> None:
    """Let a process, and what it starts from now on, run before others where this user may say so (sched(7)).

    This is for emulated switches and their controllers: real ones have processors of their own.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, FIRST)
        # Where the kernel shares the processor out by sessions, a nice value counts among those of one alone. A session
        # of others keeps its share.
        if os.getsid(pid) == pid:
            Path(f"/proc/{pid}/autogroup").write_text(str(FIRST))


def listens(path: Path) -> bool:
    """Return whether a process listens at a Unix socket: it may be there before, and refuse connections."""
    try:
        folder = os.open(path.parent, os.O_PATH)
    except FileNotFoundError:
        return False
    try:
        with socket.socket(socket.AF_UNIX) as client:
            # By its folder, since addresses of sockets have at most 107 characters.
            return client.connect_ex(f"/proc/self/fd/{folder}/{path.name}") == 0
    finally:
        os.close(folder)


def tail_of(log: Path) -> str:
    """Return the end of a log, in the form of the end of an error message."""
    lines = log.read_text(errors="replace").splitlines()[-TAIL_LINES:] if log.exists() else []
    said = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
    return f"; the end of {log}:\n{said}"
