"""Room for queues in a userspace switch.

Open vSwitch sends the packets of all its ports through one raw socket, and the kernel counts everything that waits in
a port's queue against that socket: about 24 full RoCE packets fit into the default of 208 kB, for all ports of all
bridges together. Then a full queue on one link makes every other link of the fabric drop, which no hardware does. The
sockets by which it receives have the same size each, and lose packets whenever the daemon has to wait for a processor.

There is no option for either, and the system-wide default must not be changed. So the daemon's sockets are duplicated
(pidfd_getfd(2), Linux 5.6) and given larger buffers (socket(7), SO_SNDBUFFORCE and SO_RCVBUFFORCE). It opens the socket
by which it sends when it sends its first packet: what is called before enlarges only the receiving ones.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket

from emulation.errors import LabError

SEND_BYTES = 64 << 20
"""Thousands of packets, where queues of 1,000 packets a port are long."""

RECEIVE_BYTES = 4 << 20

_PIDFD_GETFD = 438
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_libc = ctypes.CDLL(None, use_errno=True)


def enlarge_packet_buffers(pid: int) -> int:
    """Give every raw packet socket of a process large buffers. Returns how many it has.

    Raises:
        LabError: the kernel does not permit it.
    """
    try:
        handle = os.pidfd_open(pid)
        try:
            return sum(_enlarge(handle, int(entry)) for entry in os.listdir(f"/proc/{pid}/fd"))
        finally:
            os.close(handle)
    except OSError as error:
        raise LabError(f"the switches' packet queues cannot be enlarged: {error.strerror}") from None


def _enlarge(process: int, number: int) -> bool:
    """Enlarge one of its files, if it is a packet socket."""
    copy = _libc.syscall(_PIDFD_GETFD, process, number, 0)
    if copy < 0:
        reason = ctypes.get_errno()
        if reason == errno.EBADF:
            return False  # closed since it was listed
        raise OSError(reason, os.strerror(reason))
    try:
        borrowed = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)  # not a socket
        return False
    with borrowed:
        if borrowed.family != socket.AF_PACKET:
            return False
        borrowed.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SEND_BYTES)
        borrowed.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BYTES)
        return True
