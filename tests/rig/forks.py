"""Controllers that start at once: forked off one process that has loaded everything.

Starting ``ryu-manager`` takes three seconds of processor time, nearly all of it for loading modules and compiled
kernels, and the suite starts it more than a hundred times. What runs in a fork is ``controller.launcher.main``, as in
the command; the command itself is what the tests of the launcher, the service, the README and the demo start.

This is only another way to make the process: everything else is ``emulation.controller_process.ControllerProcess``, as
for any controller (``tests.rig.controller.forked``).

``Forks`` is the near side. The far side is this file run as a program: a line on standard input is a request (JSON:
argv, environment, folder, log); ``pid N`` answers it, and ``N ended STATUS`` follows once that process has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from controller import ryu_compat


class Forked:
    """A process of ``Forks``, like a ``subprocess.Popen`` as far as ``emulation.processes.Child`` needs one."""

    def __init__(self, pid: int, news: threading.Condition) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._news = news

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._news:
            if not self._news.wait_for(lambda: self.returncode is not None, timeout):
                raise subprocess.TimeoutExpired(["ryu-manager"], timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, sig: int) -> None:
        # It may have ended, and the line that says so be on its way.
        with contextlib.suppress(ProcessLookupError):
            if self.returncode is None:
                os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that controllers are forked off."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.rig.forks"]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._news = threading.Condition()
        self._newest = 0
        self._running: dict[int, Forked] = {}
        threading.Thread(target=self._listen, name="forks", daemon=True).start()
        atexit.register(self.close)

    def start(
        self, argv: Sequence[str], log: str | Path, *, env: Mapping[str, str] = os.environ, folder: Path | None = None
    ) -> Forked:
        """``ryu-manager ARGV``; its output goes to the end of ``log``. ``folder``: where it runs, if not here."""
        where = str(folder or Path.cwd())
        request = {"argv": list(argv), "env": dict(env), "folder": where, "log": str(Path(log).absolute())}
        assert self._server.stdin is not None
        with self._news:
            self._newest = 0
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            # It answers the first time once it has loaded everything, however long that takes on a busy machine. An
            # answer that nobody waited for would be taken for the next one's.
            while not self._news.wait_for(lambda: self._newest, 1):
                if self._server.poll() is not None:
                    raise OSError(0, "the process that controllers are forked off has ended")
            return self._running[self._newest]

    def popen(
        self, argv: Sequence[str], *, stdout: IO[bytes], env: Mapping[str, str], cwd: Path | None = None, **_: Any
    ) -> Forked:
        """``start`` with the arguments of ``subprocess.Popen``."""
        return self.start(argv[1:], stdout.name, env=env, folder=cwd)

    def close(self) -> None:
        """End it, and with it whatever still runs."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()

    def _listen(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            words = line.split()
            with self._news:
                if words[0] == "pid":
                    self._newest = int(words[1])
                    self._running[self._newest] = Forked(self._newest, self._news)
                else:
                    self._running.pop(int(words[0])).returncode = int(words[2])
                self._news.notify_all()


@functools.cache
def forks() -> Forks:
    """The one of this session, in the network namespace that the session has entered by now."""
    return Forks()


# -- the far side ----------------------------------------------------------------------------------------------------


def load() -> None:
    """Import all that a controller imports, and compile what it compiles."""
    ryu_compat.prepare()
    from ryu.lib import hub

    hub.patch(thread=True)
    ryu_compat.share_logging_with_threads()
    from controller import app, launcher  # noqa: F401
    from controller.routing.warm_up import warm_up
    from controller.store import store  # noqa: F401

    warm_up()


def run(argv: list[str], env: Mapping[str, str], folder: str, log: str) -> None:
    """A controller, until it ends."""
    import eventlet.hubs

    from controller import launcher
    from emulation import netns

    # A fork inherits the epoll instance of the event loop, if there was one: all forks would get each other's events.
    eventlet.hubs.use_hub()
    status = 1
    try:
        os.setsid()
        netns.die_with_parent(signal.SIGKILL)
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        for number, fd in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
            os.dup2(fd, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        status = launcher.main(argv)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
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
    children: dict[int, int] = {}
    while True:
        for fd, _ in poll.poll():
            if fd in children:
                poll.unregister(fd)
                os.close(fd)
                pid, status = os.waitpid(children.pop(fd), 0)
                print(pid, "ended", os.waitstatus_to_exitcode(status), flush=True)
                continue
            line = sys.stdin.readline()
            if not line:
                return
            pid = os.fork()
            if pid == 0:
                run(**json.loads(line))
            child = os.pidfd_open(pid)
            children[child] = pid
            poll.register(child, select.POLLIN)
            print("pid", pid, flush=True)


if __name__ == "__main__":
    main()
