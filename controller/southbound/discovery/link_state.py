"""The state of ports and switches while their links are watched (``link_evidence``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey

LONGEST_WAIT = 4.0
"""Seconds for which a packet is waited for at most, however long others had to wait in the queue of its port."""

_SMOOTHING = 1 / 8
_VARYING = 1 / 4
_VARIATIONS = 4


@dataclass(slots=True)
class QueueDelay:
    """An estimate of how long packets wait in the queue of a port, as a retransmission timer has one (RFC 6298)."""

    smoothed: float = 0.0
    variation: float = 0.0

    def saw(self, seconds: float) -> None:
        """Take in the delay of a packet."""
        self.variation += _VARYING * (abs(seconds - self.smoothed) - self.variation)
        self.smoothed += _SMOOTHING * (seconds - self.smoothed)

    @property
    def longest(self) -> float:
        """Seconds within which the next packet should come; zero where none had to wait, ``LONGEST_WAIT`` at most."""
        return min(LONGEST_WAIT, self.smoothed + _VARIATIONS * self.variation)


@dataclass(slots=True, eq=False)
class PortEvidence:
    """A port that is up.

    Attributes:
        since: when it came up.
        queue: the delay of packets that come in by it, beyond what the barriers of the two switches show.
        peer: where its packets came in last, or should.
        cabled: it leads to a switch, or is meant to.
        lost: packets in a row; ``enough``: how many make it silent.
        back: packets in a row that came back since it is silent.
    """

    at: PortId
    since: float
    peer: PortId | None = None
    queue: QueueDelay = field(default_factory=QueueDelay)
    silent: bool = False
    cabled: bool = False
    lost: int = 0
    enough: int = 1
    first_lost: float = 0.0
    back: int = 0


@dataclass(slots=True, eq=False)
class ProbeBatch:
    """Packets that a switch was given in one write, and which of them are not back yet."""

    switch: SwitchKey
    stamp: int
    at: float
    waiting: set[int]
    answered: float | None = None
    doubtful: set[int] | None = None


@dataclass(slots=True, eq=False)
class SwitchEvidence:
    """A connected switch.

    Attributes:
        listens: since when (a stamp) packets into it come here; ``None``: not known to.
        out, into: the newest stamp of a packet that came back out of it, and into it.
        mute, deaf: since when no packet comes out of it, or into it, although some should.
    """

    since: float
    ports: dict[int, PortEvidence] = field(default_factory=dict)
    batches: dict[int, ProbeBatch] = field(default_factory=dict)
    answered: int = -1
    listens: int | None = None
    speaks: int = -1
    out: int = -1
    into: int = -1
    mute: float | None = None
    deaf: float | None = None
