"""When Python collects garbage: full collections visit every object of a large fabric, and find nothing.

Fabrics and rules are millions of objects without reference cycles. Each full collection among them takes a second or
more, and Python would make one after every growth by a quarter.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER = 1_000_000_000


def only_young() -> None:
    """Collect young objects alone from now on; full collections are left to the program."""
    # A thousand requests that wait at once are ten thousand objects, which collections would visit in vain.
    gc.set_threshold(20_000, 3, _NEVER)


def rarely() -> None:
    """Collect for every hundred thousand new objects instead of 700, from now on.

    A command that loads compiled code and reads files makes a million objects that stay: looking through these again
    and again takes a sixth of its time.
    """
    gc.set_threshold(100_000, 10, 10)


@contextmanager
def lasting() -> Iterator[None]:
    """Take what is made meanwhile for lasting: there are no collections then, and later ones pass it over.

    Even those of young objects would take a tenth of the time in which a large fabric file is read.
    """
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
