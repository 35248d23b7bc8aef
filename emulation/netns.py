"""Linux namespaces from Python: the calls that ``os`` has only from 3.12 on, and sockets inside another namespace."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# linux/sched.h, sys/mount.h, linux/prctl.h
CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x8, 0x4000, 0x40000
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Move this thread, and the processes that it starts, to new namespaces by the system call of this name.

    Raises:
        OSError: the call failed, usually for lack of permission.
    """
    _checked(_libc.unshare(flags), "unshare")


def fork_as_init() -> int:
    """Fork; the child is the first process (and so the reaper, and the end) of a new process namespace.

    Returns what ``os.fork`` returns. The parent stays what it was: without the way back its next threads could not
    start, and its next children would be born into that namespace too.

    Raises:
        OSError: not permitted, mostly.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(CLONE_NEWPID)
        child = os.fork()
        if child:
            _checked(_libc.setns(own, CLONE_NEWPID), "setns")
        return child
    finally:
        os.close(own)


def join_netns(fd: int) -> None:
    """Put this thread into the network namespace that an open file stands for: setns(2)."""
    _checked(_libc.setns(fd, CLONE_NEWNET), "setns")


def mount_own_proc() -> None:
    """Show the own process namespace in /proc, without others seeing that. Needs a mount namespace of its own."""
    _checked(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "mount")
    _checked(_libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None), "mount /proc")


def die_with_parent(signal_number: int) -> None:
    """Get this signal when the parent ends, however it ends: prctl(2), PR_SET_PDEATHSIG."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def in_netns_of(pid: int, action: Callable[[], T]) -> T:
    """Do something short inside the network namespace of a process, and return what it returns.

    It is done in a thread of its own, because a namespace belongs to the thread: nobody else is moved. Sockets made
    there stay in that namespace wherever they are used afterwards.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def inside() -> None:
        try:
            fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                join_netns(fd)
            finally:
                os.close(fd)
            results.append(action())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=inside, name=f"netns of {pid}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def socket_in_netns_of(pid: int, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """Return a socket in the network namespace of a process."""
    return in_netns_of(pid, lambda: socket.socket(family, kind, protocol))


def _checked(status: int, what: str) -> None:
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
