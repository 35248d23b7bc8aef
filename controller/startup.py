"""What the launcher has checked and hands to the application, which Ryu constructs without arguments of ours."""

from __future__ import annotations

from dataclasses import dataclass

from controller.config import Settings
from controller.model.fabric import Fabric


@dataclass(frozen=True)
class Startup:
    """The checked options, the intended fabric (``None``: discovery alone), and where HTTP listens."""

    settings: Settings
    fabric: Fabric | None
    http_host: str
    http_port: int


_announced: list[Startup] = []


def announce(startup: Startup) -> None:
    """Called once by the launcher."""
    _announced[:] = [startup]


def current() -> Startup:
    """Called by the application.

    Raises:
        RuntimeError: it was started by another ``ryu-manager`` than ours.
    """
    if not _announced:
        raise RuntimeError("controller.app needs fairspine's own ryu-manager (make setup; .venv/bin/ryu-manager)")
    return _announced[0]
