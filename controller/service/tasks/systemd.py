"""The messages to systemd (sd_notify(3), sd_watchdog_enabled(3)): the service is ready, and it still works.

Each message is one datagram to the socket that ``$NOTIFY_SOCKET`` names; no library is needed for that.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import socket
from collections.abc import Mapping, Sequence

from controller.core.ports.runtime import Runtime

LOG = logging.getLogger("fairspine.service")

MOST_LAG = 1.0
"""Part of a beat's period by which the event loop may be late; later, and the beat is left out."""


def notify(address: str, message: str) -> bool:
    """Send a message; return whether it was sent. ``address``: a path, or ``@`` and an abstract name; empty: none."""
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            # A full queue means that systemd does not read: waiting for it would hold the event loop.
            sender.setblocking(False)
            sender.sendto(message.encode(), address)
    except OSError as error:
        LOG.warning("systemd cannot be notified of %s: %s", message.partition("\n")[0], error.strerror)
        return False
    return True


def period(environment: Mapping[str, str], pid: int) -> float | None:
    """Return the seconds between two beats, half of systemd's limit; ``None``: no watchdog is set for this process."""
    text = environment.get("WATCHDOG_USEC", "")
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        return None
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    return int(text) / 1e6 / 2


class Watchdog:
    """Sends READY once, and then WATCHDOG as long as the controller works.

    A beat is left out while the event loop is more than a whole period late, and for good once a vital task has ended:
    then systemd ends the process and starts it again.
    """

    def __init__(self, runtime: Runtime, ended: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
        """Read the environment; ``ended`` has the names of the vital tasks that have ended, now and later."""
        self._runtime, self._ended = runtime, ended
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._period = period(environment, os.getpid()) if self._address else None
        self._reported = False

    def start(self) -> None:
        """Report that the service is ready, and begin to beat if systemd asks for it."""
        if not self._address:
            return
        notify(self._address, "READY=1\nSTATUS=running")
        if self._period is not None:
            # What systemd ends a silent process by (SIGABRT) then shows where every thread was.
            faulthandler.enable()
            self._runtime.spawn(self._beat)

    def _beat(self) -> None:
        assert self._period is not None
        late = 0.0
        while True:
            if self.healthy(late):
                notify(self._address, "WATCHDOG=1")
            began = self._runtime.clock()
            self._runtime.sleep(self._period)
            late = self._runtime.clock() - began - self._period

    def healthy(self, late: float) -> bool:
        """Return whether to beat. ``late``: seconds by which the event loop came back later than it was asked to."""
        assert self._period is not None
        if self._ended:
            if not self._reported:
                self._reported = True
                LOG.critical(
                    "an essential task has ended (%s): the watchdog is no longer notified", ", ".join(self._ended)
                )
            return False
        return late <= MOST_LAG * self._period
