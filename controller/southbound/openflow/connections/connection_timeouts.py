"""Time limits of all connections, checked a few times a second: slow connections, and those whose peer has disappeared.

Time is counted by this program's own turns: while it is held up, no peer is late.
"""

from __future__ import annotations

import logging
from typing import Any

from ryu.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER
from ryu.lib import hub

from controller.southbound.openflow.connections.connection import SwitchConnection
from controller.southbound.openflow.connections.connection_context import ConnectionContext

LOG = logging.getLogger("fairspine.southbound")

TICK_SECONDS = 0.25

HANDSHAKE_SECONDS = 5.0
"""For each step of a handshake: HELLO, features, ports."""

MESSAGE_SECONDS = 10.0
"""From the first byte of a message to its last."""

ECHO_SECONDS = 8.0
"""For an echo reply if other messages arrive: a switch that sends but never answers is of no use."""

TAKING_SECONDS = 15.0
"""For a switch to take 64 KiB."""

ECHOES_PER_SECOND = 1000
"""Echo requests to all switches together, at most, besides those that Ryu's options ask for."""


class _Watched:
    """The state of one connection at the last check."""

    def __init__(self, now: float) -> None:
        self.progress, self.deadline = 0, now + HANDSHAKE_SECONDS
        self.received, self.silent, self.asked, self.echo_sent = 0, 0, float("-inf"), float("-inf")
        self.echoed, self.answered = 0, float("inf")


class ConnectionTimeouts:
    """The greenlet that checks the time limits."""

    def __init__(self, context: ConnectionContext) -> None:
        """Watch no connections yet; ``start`` begins."""
        self._context = context
        self._watched: dict[SwitchConnection, _Watched] = {}

    def start(self) -> None:
        """Start the greenlet that checks."""
        hub.spawn(self._run)

    def add(self, connection: SwitchConnection) -> None:
        """Watch a connection that has begun."""
        self._watched[connection] = _Watched(self._context.awake)

    def remove(self, connection: SwitchConnection) -> None:
        """Stop watching a connection that has ended."""
        self._watched.pop(connection, None)

    def _run(self) -> None:
        last = self._context.clock()
        while True:
            hub.sleep(TICK_SECONDS)
            now = self._context.clock()
            # What came while the program was held up has been read by the next turn.
            self._context.awake += min(now - last, 2 * TICK_SECONDS)
            last = now
            for connection, watched in list(self._watched.items()):
                try:
                    self.look(connection, watched)
                except Exception:
                    # Continue with the others: this is a programming error.
                    LOG.exception("%s could not be checked", connection.who)

    def look(self, connection: Any, watched: _Watched) -> None:
        """Look at one connection."""
        if connection.state == DEAD_DISPATCHER:
            return
        now = self._context.awake
        if connection.unfinished_since is not None and now - connection.unfinished_since > MESSAGE_SECONDS:
            self._end(connection, f"a message was not complete within {MESSAGE_SECONDS:g} s", "slow")
        elif connection.sending_since is not None and now - connection.sending_since > TAKING_SECONDS:
            self._end(connection, f"it has read no data for {TAKING_SECONDS:g} s", "slow")
        elif connection.state == MAIN_DISPATCHER:
            self._keep_alive(connection, watched, now)
        elif connection.progress != watched.progress or connection.at_gate:
            watched.progress, watched.deadline = connection.progress, now + HANDSHAKE_SECONDS
        elif now > watched.deadline:
            self._end(connection, f"its handshake made no progress for {HANDSHAKE_SECONDS:g} s", "handshake")

    def _keep_alive(self, connection: Any, watched: _Watched, now: float) -> None:
        """Ask for a sign of life now and then; everything that comes is one, for some time."""
        if not connection.max_unreplied_echo_requests or now - watched.asked < connection.echo_request_interval:
            self._ask_more_often(connection, watched, now)
            return
        watched.asked = watched.echo_sent = now
        watched.silent = watched.silent + 1 if connection.received == watched.received else 0
        watched.received = connection.received
        if not connection.reading:
            # Its messages are not being read, so it does not count as silent.
            watched.silent, watched.answered = 0, now
        if connection.echoed != watched.echoed or watched.answered == float("inf"):
            watched.echoed, watched.answered = connection.echoed, now
        if now - watched.answered > ECHO_SECONDS:
            self._end(connection, f"it has answered no echo request for {ECHO_SECONDS:g} s", "silent")
        elif watched.silent > connection.max_unreplied_echo_requests:
            self._end(connection, f"it has sent nothing since {watched.silent} echo requests", "silent")
        else:
            connection.ask_echo()

    def _ask_more_often(self, connection: Any, watched: _Watched, now: float) -> None:
        """Ask for a sign of life sooner than Ryu's options say, without ending the connection sooner."""
        seconds = self._context.echo_seconds
        if seconds is not None and now - watched.echo_sent >= max(seconds, len(self._watched) / ECHOES_PER_SECOND):
            watched.echo_sent = now
            connection.ask_echo()

    def _end(self, connection: Any, reason: str, kind: str) -> None:
        # Closing informs the applications, which may take long; the other connections must be checked meanwhile.
        hub.spawn(connection.end, reason, kind)
