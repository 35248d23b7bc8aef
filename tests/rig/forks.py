"""Controllers and HTTP servers that start at once: forked off one process that has loaded everything.

Starting ``ryu-manager`` takes six seconds of processor time, nearly all of it for loading modules and compiled
kernels, and the suite starts it more than a hundred times. What runs in a fork is ``controller.launcher.main``, as in
the command; the command itself is what the tests of the launcher, the service, the README and the demo start.

This is only another way to make the process: everything else is ``emulation.controller_process.ControllerProcess``, as
for any controller (``tests.rig.controller.forked``). The servers without a controller of ``tests.rig.http`` are made in
the same way.

``Forks`` is the near side. The far side is this file run as a program: a line on standard input is a request (JSON:
the arguments of ``run``); ``pid N`` answers it, and ``N ended STATUS`` follows once that process has ended. A replica
that has led replaces its process by another one of the same command (``controller.startup.start_again``), which would
load everything: here it ends, another one is forked, and ``N again M`` tells its id.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from controller import ryu_compat

CONTROLLER = "controller.launcher"

AGAIN = 113
"""Exit status of a process that another one of the same request replaces; no program of ours ends with it."""

END_SECONDS = 300.0
"""Patience for the end of a process where the caller states none: less than the limit on a test."""


class ForkServerError(OSError):
    """The process that others are forked off has ended, so that nothing is known of its children."""

    def __init__(self, status: int | None) -> None:
        super().__init__(0, f"the process that others are forked off has ended with status {status}")


class Forked:
    """A process of ``Forks``, like a ``subprocess.Popen`` as far as ``emulation.processes.Child`` needs one."""

    def __init__(self, pid: int, news: threading.Condition, server: subprocess.Popen[str]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._news = news
        self._server = server

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit status.

        Raises:
            subprocess.TimeoutExpired: it has not, after ``timeout`` seconds or, without any, after ``END_SECONDS``.
            ForkServerError: nobody can say any more whether it has.
        """
        limit = END_SECONDS if timeout is None else timeout
        with self._news:
            self._news.wait_for(lambda: self.returncode is not None or self._server.poll() is not None, limit)
            if self.returncode is not None:
                return self.returncode
        if self._server.poll() is not None:
            raise ForkServerError(self._server.returncode)
        raise subprocess.TimeoutExpired([f"process {self.pid} of the fork server"], limit)

    def send_signal(self, sig: int) -> None:
        with self._news:
            while self.returncode is None and self._server.poll() is None:
                pid = self.pid
                try:
                    os.kill(pid, sig)
                    return
                except ProcessLookupError:
                    # It has ended. The line that says so, or which one replaces it, is on its way.
                    self._news.wait(1)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that others are forked off."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", "tests.rig.forks")) -> None:
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._news = threading.Condition()
        self._newest: Forked | None = None
        self._running: dict[int, Forked] = {}
        threading.Thread(target=self._listen, name="forks", daemon=True).start()
        atexit.register(self.close)

    def start(
        self,
        argv: Sequence[str],
        log: str | Path,
        *,
        env: Mapping[str, str] = os.environ,
        folder: Path | None = None,
        program: str = CONTROLLER,
        stdin: str | Path = os.devnull,
        stdout: str | Path | None = None,
        files: int | None = None,
    ) -> Forked:
        """Start a process.

        Args:
            argv: its arguments.
            log: its output goes to the end of this file.
            env: its environment.
            folder: where it runs, if not here.
            program: the module whose ``main`` it calls; ``ryu-manager``'s unless given.
            stdin: the file that is its standard input.
            stdout: the file to whose end its standard output goes, if not the log.
            files: how many files it may open, if fewer than this process may.

        Raises:
            ForkServerError: there is nothing any more that it could be forked off.
        """
        output = Path(log if stdout is None else stdout).absolute()
        request = {
            "program": program,
            "argv": list(argv),
            "env": dict(env),
            "folder": str(folder or Path.cwd()),
            "streams": [str(stdin), str(output), str(Path(log).absolute())],
            "files": resource.getrlimit(resource.RLIMIT_NOFILE) if files is None else (files, files),
        }
        assert self._server.stdin is not None
        with self._news:
            self._newest = None
            # Where the other side has ended, the loop below says so.
            with contextlib.suppress(BrokenPipeError):
                self._server.stdin.write(json.dumps(request) + "\n")
                self._server.stdin.flush()
            # It answers the first time once it has loaded everything, however long that takes on a busy machine. An
            # answer that nobody waited for would be taken for the next one's.
            while not self._news.wait_for(lambda: self._newest, 1):
                if self._server.poll() is not None:
                    raise ForkServerError(self._server.returncode)
            # Its end may be known by now, too, so that it is not among those that run.
            assert self._newest is not None
            return self._newest

    def popen(
        self, argv: Sequence[str], *, stdout: IO[bytes], env: Mapping[str, str], cwd: Path | None = None, **_: Any
    ) -> Forked:
        """``start`` with the arguments of ``subprocess.Popen``."""
        return self.start(argv[1:], stdout.name, env=env, folder=cwd)

    def close(self) -> None:
        """End it, and with it whatever still runs."""
        assert self._server.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._server.stdin.close()
        self._server.wait()

    def _listen(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            words = line.split()
            with self._news:
                if words[0] == "pid":
                    pid = int(words[1])
                    self._newest = self._running[pid] = Forked(pid, self._news, self._server)
                elif words[1] == "again":
                    process = self._running.pop(int(words[0]))
                    process.pid = int(words[2])
                    self._running[process.pid] = process
                else:
                    self._running.pop(int(words[0])).returncode = int(words[2])
                self._news.notify_all()
        # Its output ends with it: nobody waits any longer for what it would have said.
        self._server.wait()
        with self._news:
            self._news.notify_all()


@functools.cache
def forks() -> Forks:
    """The one of this session, in the network namespace that the session has entered by now."""
    return Forks()


# -- the far side ----------------------------------------------------------------------------------------------------


def load() -> None:
    """Import all that a controller imports, also what only replicas and upgrades need."""
    ryu_compat.prepare()
    from ryu.lib import hub

    hub.patch(thread=True)
    ryu_compat.share_logging_with_threads()
    from alembic import command  # noqa: F401

    from controller import app, launcher  # noqa: F401
    from controller.store import election, store  # noqa: F401


def prepare(program: str, argv: list[str], folder: str) -> None:
    """Load what only some programs need, once for all: the module, and the kernels of a controller's fabric."""
    importlib.import_module(program)
    if program != CONTROLLER:
        return
    from controller.model.errors import InputError
    from controller.model.files.fabric_file import load_fabric
    from controller.routing.warm_up import warm_up
    from controller.routing.warm_up_instances import FabricKind

    kind = FabricKind()
    # A wrong file is the controller's own matter.
    with contextlib.suppress(InputError, OSError, IndexError):
        if "--fabric" in argv:
            kind = FabricKind.of(load_fabric(Path(folder, argv[argv.index("--fabric") + 1])))
    warm_up([kind])


def run(
    program: str, argv: list[str], env: Mapping[str, str], folder: str, streams: list[str], files: list[int]
) -> None:
    """A controller or an HTTP server, until it ends.

    Args:
        program: the module whose ``main`` is called.
        argv: its arguments.
        env: its environment.
        folder: where it runs.
        streams: the files that are its standard input, output and error.
        files: how many files it may open: the soft and the hard limit.
    """
    import eventlet.hubs

    from emulation import netns
    from emulation.processes import run_first

    os.setsid()
    if program == CONTROLLER:
        # ``ControllerProcess`` may ask for it before this session is its own, and does not know of replacements.
        run_first(os.getpid())
    # A fork inherits the epoll instance of the event loop, if there was one: all forks would get each other's events.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    eventlet.hubs.use_hub()
    if program == CONTROLLER:
        sys.modules["controller.startup"].start_again = lambda: os._exit(AGAIN)  # type: ignore[attr-defined]
    status = 1
    try:
        netns.die_with_parent(signal.SIGKILL)
        appended = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        for number, (file, how) in enumerate(zip(streams, (os.O_RDONLY, appended, appended), strict=True)):
            os.dup2(os.open(file, how, 0o666), number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files[0], files[1]))
        status = sys.modules[program].main(argv)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


def main() -> None:
    load()
    from eventlet.patcher import original

    select = original("select")
    poll = select.poll()
    poll.register(0, select.POLLIN)
    children: dict[int, tuple[int, dict[str, Any]]] = {}

    def fork(request: dict[str, Any]) -> int:
        # The collector of a fork would visit, and so copy, every page that it shares with the others.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            run(**request)
        child = os.pidfd_open(pid)
        children[child] = pid, request
        poll.register(child, select.POLLIN)
        return pid

    while True:
        for fd, _ in poll.poll():
            if fd in children:
                poll.unregister(fd)
                os.close(fd)
                pid, request = children.pop(fd)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                if status == AGAIN:
                    print(pid, "again", fork(request), flush=True)
                else:
                    print(pid, "ended", status, flush=True)
                continue
            line = sys.stdin.readline()
            if not line:
                return
            request = json.loads(line)
            prepare(request["program"], request["argv"], request["folder"])
            print("pid", fork(request), flush=True)


if __name__ == "__main__":
    main()
