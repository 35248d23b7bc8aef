"""Bypass probes: they come back only where a switch passes over another one, because its cable to that is down.

A state machine without clocks and sockets. That one has come back is certain at once. That one is lost may be chance,
so only several in a row tell that the switch is not passed over, and only if other probes came back meanwhile: else,
the host's own link or processor may be at fault.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv6Address

MISSES = 2
PATIENCE_SECONDS = 2.0
"""Time after which a probe counts as lost."""


@dataclass
class _Bypass:
    """What is known of a bypass probe; ``back``: it comes back; ``None``: not known."""

    waiting: dict[int, float] = field(default_factory=dict)
    missed: int = 0
    back: bool | None = None


class BypassProbes:
    """The bypass probes of a plan. Times are seconds of one clock."""

    def __init__(self) -> None:
        """Begin without probes."""
        self._probes: dict[IPv6Address, _Bypass] = {}

    def watch(self, probes: Iterable[IPv6Address]) -> None:
        """Set the probes; what is known of others than these is dropped."""
        self._probes = {probe: self._probes.get(probe) or _Bypass() for probe in probes}

    @property
    def probes(self) -> tuple[IPv6Address, ...]:
        """All probes."""
        return tuple(self._probes)

    @property
    def known(self) -> dict[IPv6Address, bool]:
        """Whether each probe comes back, as far as this is known."""
        return {probe: state.back for probe, state in self._probes.items() if state.back is not None}

    def sent(self, probe: IPv6Address, number: int, now: float) -> None:
        """Note that a probe was sent."""
        self._probes[probe].waiting[number] = now

    def answered(self, probe: IPv6Address) -> bool:
        """Note that a probe has come back; return whether that is news."""
        state = self._probes.get(probe)
        if state is None:
            return False
        news, state.back = not state.back, True
        state.waiting.clear()
        state.missed = 0
        return news

    def judge(self, now: float, came_back: float) -> bool:
        """Find probes that are lost; return whether one is lost that came back before.

        Args:
            now: the time.
            came_back: when the newest of all other probes that have come back was sent.
        """
        news = False
        for state in self._probes.values():
            for number, sent in [*state.waiting.items()]:
                if now - sent <= PATIENCE_SECONDS:
                    continue
                del state.waiting[number]
                state.missed += came_back >= sent
                if state.missed >= MISSES:
                    news |= state.back is True
                    state.back = False
        return news
