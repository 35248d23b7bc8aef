"""Asks the controller for the packets of this host that routers have sampled, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from agent.connection.controller_connection import ControllerConnection
from agent.errors import HostAgentError
from agent.fields import converted, member
from agent.ports.sampled_paths import SeenPacket
from controller.model.errors import InputError, one_line

LOG = logging.getLogger("fairspine.agent")

PAUSE_SECONDS = 2.0
"""Before the next request, if one has failed."""

MOST_KEPT = 100
"""Answers that wait to be taken; the agent takes all of them at once."""


@dataclass(frozen=True)
class SampleAnswer:
    """An answer of the controller.

    Attributes:
        number: asks for those behind it.
        one_in: packets of which routers sample one; ``None``: not known.
        packets: that were sampled, with the time at which the controller was told of them.
    """

    number: int
    one_in: float | None
    packets: list[SeenPacket]


def read_samples(document: Any, now: float) -> SampleAnswer:
    """Return what a document of the controller says.

    Args:
        document: the document.
        now: the time at which it came.

    Raises:
        InputError: a field is missing or wrong.
    """
    packets = []
    for n, row in enumerate(member(document, "", "samples", list)):
        where = f"samples[{n}]."
        dst = converted(ip_address, member(row, where, "dst", str), f"{where}dst", "an IP address")
        age = row.get("seconds")
        if not isinstance(age, int | float) or isinstance(age, bool) or not age >= 0:
            raise InputError("is no number of seconds", field=f"{where}seconds", value=age)
        port, router = member(row, where, "port", int), member(row, where, "router", str)
        packets.append(SeenPacket(dst, port, router, now - age))
    one_in = document.get("one_in")
    if one_in is not None and (not isinstance(one_in, int | float) or isinstance(one_in, bool) or not one_in >= 1):
        raise InputError("is no number of packets", field="one_in", value=one_in)
    return SampleAnswer(member(document, "", "number", int), one_in, packets)


class SampleReader:
    """The thread. It asks from ``start`` on; what cannot be read is told once, and asked for again."""

    def __init__(self, samples: ControllerConnection, wake: Callable[[], None]) -> None:
        """Keep the connection; ``wake`` is called, from the thread, when there is something to take."""
        self._samples, self._wake = samples, wake
        self._new: deque[SampleAnswer] = deque(maxlen=MOST_KEPT)
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to ask, if it does not yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
            self._thread.start()

    def take(self) -> list[SampleAnswer]:
        """Return the answers that have come since the last call."""
        taken = []
        while self._new:
            taken.append(self._new.popleft())
        return taken

    def close(self) -> None:
        """End it."""
        self._ended.set()
        self._samples.close()

    def _run(self) -> None:
        after, complaint = 0, ""
        while not self._ended.is_set():
            try:
                document = self._samples.samples(after)
                if document is not None:
                    samples = read_samples(document, time.monotonic())
                    after = samples.number
                    self._new.append(samples)
                    self._wake()
                complaint = ""
            except (HostAgentError, InputError) as error:
                text = one_line(str(error))
                if text != complaint and not self._ended.is_set():
                    LOG.warning("samples: %s", text)
                complaint = text
                self._ended.wait(PAUSE_SECONDS)
