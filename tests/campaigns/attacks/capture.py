"""Capture of the discovery frames on a fabric's cables, which a rogue host replays."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable

from tests.campaigns.attacks.frames import ETH_LLDP, LONGEST_FRAME

MOST_FRAMES = 64


def lldp_frames(interfaces: Iterable[str], seconds: float) -> tuple[str, ...]:
    """Return the distinct LLDP frames received on interfaces of this namespace within ``seconds``, in hex."""
    found: dict[str, None] = {}
    poll = select.poll()
    by_fd: dict[int, socket.socket] = {}
    try:
        for name in interfaces:
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_LLDP))
            by_fd[made.fileno()] = made
            made.bind((name, ETH_LLDP))
            poll.register(made, select.POLLIN)
        deadline = time.monotonic() + seconds
        while len(found) < MOST_FRAMES and (left := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(left * 1000):
                found[by_fd[fd].recv(LONGEST_FRAME).hex()] = None
    finally:
        for made in by_fd.values():
            made.close()
    return tuple(found)
