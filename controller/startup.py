"""What the launcher has checked and hands to the application, which Ryu constructs without arguments of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.config import Settings
from controller.model.fabric import Fabric
from controller.rest.access import Access

if TYPE_CHECKING:
    from ssl import SSLContext

    from controller.rest.tls import Tls
    from controller.store.store import Store
    from controller.store.values import Kept


@dataclass(frozen=True)
class Startup:
    """The checked options, the intended fabric (``None``: discovery alone), where HTTP listens, who may use it,
    how OpenFlow is encrypted (``None``: it is not), the store with what it kept."""

    settings: Settings
    fabric: Fabric | None
    http_host: str
    http_port: int
    access: Access
    tls: Tls | None
    openflow_tls: SSLContext | None
    store: Store
    kept: Kept


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
