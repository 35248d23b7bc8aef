"""Counters of the host table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostCounts:
    """Counters of the host table.

    Attributes:
        placed: hosts that have answered where they are; ``claims``: claims that are being checked or reported.
        clashes: claims that were not believed, ``refused``: claims for which there was no room, and ``malformed``: ARP
            packets that were not sound; since the start.
    """

    placed: int = 0
    claims: int = 0
    clashes: int = 0
    refused: int = 0
    malformed: int = 0
