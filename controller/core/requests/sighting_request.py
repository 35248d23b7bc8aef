"""Sightings of QPs as an interface reads them from a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array


@dataclass(frozen=True, eq=False)
class SightingRequest:
    """Tallies of Q QPs, N in all.

    Attributes:
        qps: [Q] (sending host, receiving host, UDP source port, ``ANY_PORT`` or ``ALL_TCP``, destination QP); hosts by
            name or IP address.
        qp: [N] index into ``qps``.
        at: [N] seconds since 1970.
        bytes: [N] payload bytes that the QP has sent so far.
        open: by index into ``qps``, whether hosts have a connection, where that is known.
    """

    qps: tuple[tuple[str, str, int, int], ...]
    qp: IntArray
    at: FloatArray
    bytes: Int64Array
    open: Mapping[int, bool] = field(default_factory=dict)


ReadSightings = Callable[[bytes], SightingRequest]
"""Reads the body of a request, and raises ``InputError`` where it is wrong."""
