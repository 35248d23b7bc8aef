"""Wait for a state: of a controller, of switches, or of anything that a function reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from emulation.errors import LabError
from emulation.processes import Pauses

T = TypeVar("T")


READY_SECONDS = 180.0
"""Patience for a state: only a test that fails waits so long, so it is chosen for a busy machine."""


class Pingable(Protocol):
    """Switches with hosts, real or fake."""

    def ping_all(self) -> list[tuple[str, str]]:
        """Return the pairs of hosts that do not reach each other."""
        ...


def eventually(
    ready: Callable[[], bool], what: str, timeout: float = READY_SECONDS, *, shown: Callable[[], object] | None = None
) -> None:
    """Wait until something is so; ``shown`` tells in the error how it is instead.

    Raises:
        LabError: it is not in time.
    """
    deadline, pauses = time.monotonic() + timeout, Pauses()
    while not ready():
        if time.monotonic() > deadline:
            raise LabError(f"not within {timeout:g} s: {what}" + (f"; it is {shown()}" if shown else ""))
        pauses.sleep()


def standing(read: Callable[[], T]) -> T:
    """Return what is read once it stays the same for a second.

    A plan is active before the last rules of the one before it are gone.
    """
    last = read()

    def stands() -> bool:
        nonlocal last
        time.sleep(1)
        before, last = last, read()
        return last == before

    eventually(stands, "nothing changes any more", shown=lambda: last)
    return last


def wait_for_pings(switches: Pingable) -> None:
    """Wait until every host reaches every other.

    A plan that is active on every switch does not suffice for a single ping: Open vSwitch forwards by its cache of
    former rules for about a second, and a busy machine may answer late.
    """
    eventually(lambda: not switches.ping_all(), "every host reaches every other", shown=switches.ping_all)
