"""The launcher's checked values for the application, which Ryu constructs without arguments of ours."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from controller.core.configuration import Configuration
from controller.rest.security.http_security import HttpSecurity

if TYPE_CHECKING:
    from ssl import SSLContext

    from controller.core.cluster_standing import ClusterSettings
    from controller.core.saved.saved_state import SavedState
    from controller.rest.security.origin import Names
    from controller.southbound.bgp.sessions_file import BgpSessions
    from controller.store.election import Election
    from controller.store.store import Store


@dataclass(frozen=True)
class Startup:
    """The values that the launcher has checked.

    These are the configuration, where HTTP listens and by which names, who may use it, how OpenFlow is encrypted
    (``None``: it is not), the store with its content, and the cluster with its election (``None``: a single
    controller), the BGP sessions to routers (``None``: there are none), and the command line.
    """

    configuration: Configuration
    http_address: tuple[str, int]
    names: Names
    security: HttpSecurity
    openflow_tls: SSLContext | None
    store: Store
    saved: SavedState
    cluster: tuple[ClusterSettings, Election] | None
    bgp: BgpSessions | None
    arguments: tuple[str, ...]


_announced: list[Startup] = []


def announce(startup: Startup) -> None:
    """Keep the values for the application; the launcher calls this once."""
    _announced[:] = [startup]


def current() -> Startup:
    """Return the values of the launcher; the application calls this.

    Raises:
        RuntimeError: it was started by another ``ryu-manager`` than ours.
    """
    if not _announced:
        raise RuntimeError("controller.app requires the ryu-manager of fairspine (make setup; .venv/bin/ryu-manager)")
    return _announced[0]


def start_again() -> NoReturn:
    """Replace this process by one with the same command line, and with nothing of its memory, sockets and threads."""
    os.execv(sys.executable, [sys.executable, "-P", "-m", "controller.launcher", *current().arguments])
