"""What a BGP speaker tells, and to whom."""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import Protocol

from controller.southbound.bgp.sessions_file import BgpSessions


class RouteListener(Protocol):
    """Hears of sessions and routes."""

    def began(self, router: str) -> None:
        """Begin with a session; what the router reaches follows."""

    def ended(self, router: str) -> None:
        """End with a session."""

    def failed(self, router: str, reason: str) -> None:
        """Take why a router, or the speaker, has refused a session or ended it."""

    def takes(self, router: str, prefix: IPv6Network, path: tuple[int, ...]) -> None:
        """Take the path of a router to a prefix: AS numbers, its own first; empty: it has none any more."""


class Speaker(Protocol):
    """Has a session to each router of a file."""

    def start(self) -> None:
        """Begin to open all sessions, and to open them again whenever they end."""

    def close(self) -> None:
        """End all sessions."""


class MakeSpeaker(Protocol):
    """Makes a speaker, which opens nothing yet."""

    def __call__(self, sessions: BgpSessions, listener: RouteListener) -> Speaker:
        """Return it."""
