"""Two switches with one datapath id: the one that is there stays, as long as it answers.

Ryu lets the newest connection win, so two switches with one id would replace each other forever, and each would be
given the other's rules. Here the first is asked by an echo request before the newcomer is let in.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventlet.event import Event
from ryu.controller import controller
from ryu.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER
from ryu.lib import hub

from controller.model.switch_key import SwitchKey
from controller.southbound.limits.connection_places import Places
from controller.southbound.openflow.connections.connection import SwitchConnection, place_of
from controller.southbound.openflow.connections.connection_context import ConnectionContext
from controller.southbound.openflow.connections.connection_timeouts import ConnectionTimeouts
from controller.southbound.openflow.connections.listener import AcceptedSocket, serving_with

LOG = logging.getLogger("fairspine.southbound")

ANSWER_SECONDS = 1.0
"""Seconds that the first connection has to answer."""

LOOK_SECONDS = 0.02
"""Seconds between two checks of this."""

HOLD_FIRST, HOLD_LAST = 0.25, 4.0
"""Seconds for which a new connection is held before it is rejected, doubling: it reconnects at once."""

FORGET_SECONDS = 60.0
"""Seconds after the last attempt after which a new connection is forgotten."""

MOST_NEWCOMERS = 1000
"""Remembered at a time."""


@dataclass
class Newcomer:
    """A switch that claims the datapath id of another one. ``last``: when it tried last, seconds."""

    text: str
    tries: int = 0
    last: float = 0.0


class DpidRegistry:
    """The connection of each datapath id.

    Attributes:
        context: state and counters shared by all connections.
        refused: number of connections rejected since the start.
    """

    def __init__(
        self,
        *,
        name: Callable[[int], str],
        changed: Callable[[], None],
        clock: Callable[[], float],
        intended: frozenset[int] | None = None,
    ) -> None:
        """Begin without connections; ``guard`` puts the registry in place.

        Args:
            name: of a switch, for people.
            changed: called when there is a new notice.
            clock: seconds of a monotonic clock.
            intended: datapath ids of the intended fabric; ``None``: any switch may be part of it.
        """
        self._intended = intended
        self._name, self._changed, self._clock = name, changed, clock
        self.context = ConnectionContext(name=name, changed=changed, clock=clock)
        self._watch = ConnectionTimeouts(self.context)
        self._inside: dict[int, GuardedDatapath] = {}
        self._newcomers: dict[tuple[int, str], Newcomer] = {}
        self.refused = 0

    def guard(self, places: Places, tls: ssl.SSLContext | None = None) -> None:
        """Make Ryu listen with our server, whose connections are checked here before they are used.

        Args:
            places: for connections.
            tls: how they are encrypted; ``None``: they are not.
        """
        controller.datapath_connection_factory = self.serve
        controller.StreamServer = serving_with(self.context, places, self.serve, tls)
        self._watch.start()

    def serve(self, socket: Any, address: Any, arrival: AcceptedSocket | None = None) -> None:
        """Serve one connection from its first byte to its last.

        Args:
            socket: of the connection.
            address: of the peer.
            arrival: its place among the connections; ``None``: this side has connected.
        """
        datapath = None
        try:
            datapath = GuardedDatapath(self, socket, address)
            if arrival is not None:
                datapath.arrival, arrival.connection = arrival, datapath
            self._watch.add(datapath)
            datapath.serve()
        except Exception as error:
            # An error in handling one switch's messages must end only its own connection.
            where = "the connection" if datapath is None else datapath.who
            LOG.debug("%s ends", where, exc_info=error)
            text = f"{type(error).__name__} {error} ({place_of(error)})"
            self.context.ended(str(address[0]) if address else "", where, "error", text)
        finally:
            if datapath is not None:
                # First: closing tells all applications, and one of them may fail.
                self._watch.remove(datapath)
                try:
                    datapath.close()
                finally:
                    datapath.ports = {}
                    self.context.notices.withdraw((datapath.id, "ports"))

    def notices(self) -> list[str]:
        """Return the faults of connections, for people: duplicate datapath ids, and budgets exceeded."""
        self._forget()
        return [*(newcomer.text for newcomer in self._newcomers.values()), *self.context.notices.texts()]

    def admits(self, newcomer: GuardedDatapath) -> bool:
        """Return whether a connection may be used; blocks its greenlet while an earlier one is tested."""
        dpid = int(newcomer.id)
        while (first := self._inside.get(dpid)) is not None:
            if first.answers(ANSWER_SECONDS):
                if not self._turned_away(newcomer, first):
                    return False
            elif self._inside.get(dpid) is first:
                LOG.warning(
                    "%s: the connection from %s does not answer within %g s and is replaced by one from %s",
                    self._name(dpid),
                    first.place,
                    ANSWER_SECONDS,
                    newcomer.place,
                )
                first.close()
        if newcomer.state == DEAD_DISPATCHER:
            return False
        self._inside[dpid] = newcomer
        return True

    def is_known(self, dpid: int) -> bool:
        """Return whether a switch may be part of the fabric as it is intended."""
        return self._intended is None or dpid in self._intended

    def connection(self, switch: SwitchKey) -> GuardedDatapath | None:
        """Return the admitted connection of a switch; ``None`` where there is none."""
        return self._inside.get(switch) if isinstance(switch, int) else None

    def left(self, datapath: GuardedDatapath) -> None:
        """Record that a connection has ended."""
        if self._inside.get(datapath.id) is datapath:
            del self._inside[datapath.id]

    def _forget(self) -> None:
        now = self._clock()
        self._newcomers = {
            key: newcomer for key, newcomer in self._newcomers.items() if now - newcomer.last < FORGET_SECONDS
        }

    def _turned_away(self, datapath: GuardedDatapath, first: GuardedDatapath) -> bool:
        """Hold a new connection for some time; return whether the first one has ended in the meantime."""
        dpid, place = int(datapath.id), datapath.place
        self._forget()
        newcomer = self._newcomers.get((dpid, place))
        if newcomer is None:
            text = (
                f"a second switch, at {place}, claims the datapath id {dpid:#x} of {self._name(dpid)}, which is "
                f"connected from {first.place} and answers: it is rejected"
            )
            newcomer = Newcomer(text)
            if len(self._newcomers) < MOST_NEWCOMERS:
                self._newcomers[dpid, place] = newcomer
            self.context.log.warning((dpid, place, "second"), "%s", text)
        newcomer.tries += 1
        newcomer.last = self._clock()
        if newcomer.tries == 1:
            self._changed()
        if first.gone.wait(min(HOLD_LAST, HOLD_FIRST * 2 ** min(newcomer.tries - 1, 10))):
            return True
        self.refused += 1
        newcomer.last = self._clock()
        return False


class GuardedDatapath(SwitchConnection):
    """A connection that must be admitted by a ``DpidRegistry`` before Ryu's applications use it.

    Attributes:
        gone: sent when the connection has ended.
        at_gate: whether it waits for admission.
        arrival: its place among the connections, if it has one.
    """

    def __init__(self, dpids: DpidRegistry, socket: Any, address: Any) -> None:
        """Prepare a connection that is checked by ``dpids``."""
        self._dpids = dpids
        self.gone = Event()
        self.at_gate = False
        self.arrival: AcceptedSocket | None = None
        self._asked: Event | None = None
        self._was_inside = False
        super().__init__(dpids.context, socket, address)

    def set_state(self, state: str) -> None:
        """Change the state; called by Ryu in the greenlet that reads, and by any greenlet that ends the connection."""
        if self.state == state:
            return
        if state == MAIN_DISPATCHER and self.state == CONFIG_DISPATCHER:
            self.at_gate = True
            admitted = self._dpids.admits(self)
            self.at_gate = False
            if not admitted:
                self.close()
                return
            self.intended = self._dpids.is_known(int(self.id))
            if self.arrival is not None and not self.arrival.settle(known=self.intended):
                kind = "it" if self.intended else "switches that are not in the fabric file"
                text = f"the limit on connections is reached for {kind}"
                self.end(text, "crowded")
                return
            self._was_inside = True
        if self.state == DEAD_DISPATCHER:
            # Closed while it was waiting to be admitted.
            return
        if state == DEAD_DISPATCHER:
            self._dpids.left(self)
            if not self.gone.ready():
                self.gone.send(True)
            if not self._was_inside:
                # No application knows of the connection.
                self.state = state
                return
        super().set_state(state)

    def answers(self, seconds: float) -> bool:
        """Return whether the switch answers an echo request in time; blocks the calling greenlet."""
        if self.state == DEAD_DISPATCHER:
            return False
        if self._asked is not None:
            # One echo request serves many new connections.
            return bool(self._asked.wait())
        asked = self._asked = Event()
        heard = False
        try:
            heard = self._answers(seconds)
        finally:
            self._asked = None
            asked.send(heard)
        return heard

    def _answers(self, seconds: float) -> bool:
        before, context = self.received, self.context
        self.ask_echo()
        began, waited = context.awake, 0.0
        while self.received == before and self.state != DEAD_DISPATCHER:
            # Both clocks: that of the program's turns is coarse, and time that it was held up does not count.
            if waited >= seconds and context.awake - began >= seconds:
                return False
            hub.sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
        return self.received != before
