"""A private network namespace for the lab, so that its switches, ports and addresses do not conflict with others.

There are two ways to enter it:

* ``enter()`` moves this process and the processes that it starts afterwards. Tests use this.
* ``run(argv)`` runs a command in new network, process and mount namespaces. The kernel ends all of its processes when
  this process or the command ends, even by ``kill -9``. ``python -m emulation.isolate COMMAND ...`` does the same.

A command inside can reach a controller outside: a relay forwards each connection to a Unix socket inside to a TCP
address outside.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn, TypeVar

from emulation import netns
from emulation.errors import LabError
from emulation.relay import Relay, unix_listener
from emulation.runfile import RUN_FOLDER_VARIABLE, RunFile, own_netns, run_folder, sweep_dead

T = TypeVar("T")

NETNS_VARIABLE = "FAIRSPINE_NETNS"
"""Number of the namespace that was made for the lab; children inherit both, so they know where they are."""

RELAY_SOCKET = "controller.sock"
_WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
_SENT_BY_THE_TERMINAL = 0x80
"""SI_KERNEL (sigaction(2)): a signal with this code came from the terminal and has reached the command already."""


def isolated() -> bool:
    """Return whether this thread is in a network namespace that was created for the lab."""
    return os.environ.get(NETNS_VARIABLE) == str(own_netns())


def enter() -> None:
    """Move this process (its calling thread, to be exact) into a new network namespace. There is no way back.

    Raises:
        LabError: not permitted.
    """
    if isolated():
        return
    _permitted(lambda: netns.unshare(netns.CLONE_NEWNET))
    _settle()


def run(argv: Sequence[str], *, relay_to: tuple[str, int] | None = None) -> int:
    """Run a command in new namespaces and return its exit status (128 + signal, as shells do).

    With ``relay_to`` (host, port), ``unix:`` + ``relay_path()`` inside leads to that TCP address outside.

    Raises:
        LabError: the operation is not permitted, or the remains of a killed lab cannot be removed.
    """
    sweep_dead()
    with ExitStack() as stack:
        runfile = RunFile()
        stack.callback(runfile.sweep)
        stack.callback(os.environ.__setitem__, RUN_FOLDER_VARIABLE, str(run_folder()))
        os.environ[RUN_FOLDER_VARIABLE] = str(runfile.folder)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        child = _permitted(netns.fork_as_init)
        if child == 0:
            _become(argv, before)
        if relay_to is not None:
            stack.enter_context(Relay(unix_listener(runfile.folder / RELAY_SOCKET), relay_to))
        return _supervise(child)


def relay_path() -> Path | None:
    """Inside ``run(..., relay_to=...)``: the Unix socket that leads outside. Elsewhere: none."""
    path = run_folder() / RELAY_SOCKET
    return path if path.is_socket() else None


def _become(argv: Sequence[str], mask: set[int | signal.Signals]) -> NoReturn:
    """In the forked child: finish the namespaces, start the command, and be its init.

    The command is not the init itself: the kernel keeps signals from an init that does not handle them, and it would
    have to wait for orphans.
    """
    status = 127
    try:
        netns.die_with_parent(signal.SIGKILL)
        netns.unshare(netns.CLONE_NEWNET | netns.CLONE_NEWNS)
        netns.mount_own_proc()
        _settle()
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvp(argv[0], list(argv))
        status = _supervise(child)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{argv[0]}: {error}", file=sys.stderr)
    finally:
        os._exit(status)


def _supervise(child: int) -> int:
    """Hand signals on to a child until it ends; its exit status."""
    while True:
        got = signal.sigwaitinfo(_WATCHED)
        if got.si_signo != signal.SIGCHLD:
            if got.si_code != _SENT_BY_THE_TERMINAL:
                os.kill(child, got.si_signo)
            continue
        while True:
            # Several children that end together send one signal; an init also inherits orphans.
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if ended == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if not ended:
                break


def _permitted(action: Callable[[], T]) -> T:
    try:
        return action()
    except OSError as error:
        raise LabError(f"the lab needs its own namespaces, which only root can create ({error.strerror})") from None


def _settle() -> None:
    subprocess.run(["ip", "link", "set", "dev", "lo", "up"], check=True)
    os.environ[NETNS_VARIABLE] = str(own_netns())


def main() -> int:
    """Run ``python -m emulation.isolate COMMAND ...`` and return its exit status."""
    if len(sys.argv) < 2:
        print("usage: python -m emulation.isolate COMMAND [ARGUMENT ...]", file=sys.stderr)
        return 2
    try:
        return run(sys.argv[1:])
    except LabError as error:
        print(f"isolate: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
