"""Two switches with one datapath id: the one that is there stays, as long as it answers.

Ryu lets the newest connection win, so two switches with one id would throw each other out for ever, and each would be
given the other's rules. Here the first is asked by an echo request before the newcomer is let in.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventlet.event import Event
from ryu.controller import controller
from ryu.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER
from ryu.lib import hub

LOG = logging.getLogger("fairspine.southbound")

ANSWER_SECONDS = 1.0
"""How long the first has to answer."""

HOLD_FIRST, HOLD_LAST = 0.25, 4.0
"""Seconds for which a newcomer is held before it is turned away, doubling: it comes back at once."""

FORGET_SECONDS = 60.0
"""A newcomer that has not tried for so long is forgotten."""


@dataclass
class Newcomer:
    """A switch that claims the datapath id of another one. ``last``: when it tried last, by the gate's clock."""

    text: str
    tries: int = 0
    last: float = 0.0


class Gate:
    """Knows which connection each datapath id belongs to.

    Attributes:
        refused: how many connections were turned away since the start.
    """

    def __init__(self, *, name: Callable[[int], str], changed: Callable[[], None], clock: Callable[[], float]) -> None:
        """
        Args:
            name: of a switch, for people.
            changed: called when there is a new notice.
        """
        self._name, self._changed, self._clock = name, changed, clock
        self._inside: dict[int, GuardedDatapath] = {}
        self._newcomers: dict[tuple[int, str], Newcomer] = {}
        self.refused = 0

    def guard(self) -> None:
        """From now on Ryu makes connections that ask here before they are let in."""

        controller.datapath_connection_factory = self._serve

    def _serve(self, socket: Any, address: Any) -> None:
        """One connection, from its first byte to its last."""
        with contextlib.closing(GuardedDatapath(self, socket, address)) as datapath:
            try:
                datapath.serve()
            except Exception:
                # Whatever a switch sends must not end more than its own connection.
                LOG.exception("the connection from %s ends", _place(datapath))

    def notices(self) -> list[str]:
        """Who claims another's datapath id, for people."""
        now = self._clock()
        self._newcomers = {
            key: newcomer for key, newcomer in self._newcomers.items() if now - newcomer.last < FORGET_SECONDS
        }
        return [newcomer.text for newcomer in self._newcomers.values()]

    def admits(self, newcomer: GuardedDatapath) -> bool:
        """Whether a connection may be used; blocks its greenlet while another one is asked."""
        dpid = int(newcomer.id)
        while (first := self._inside.get(dpid)) is not None:
            if first.answers(ANSWER_SECONDS):
                if not self._turned_away(newcomer, first):
                    return False
            elif self._inside.get(dpid) is first:
                LOG.warning(
                    "%s: the connection from %s does not answer within %g s and is replaced by one from %s",
                    self._name(dpid), _place(first), ANSWER_SECONDS, _place(newcomer),
                )  # fmt: skip
                first.close()
        self._inside[dpid] = newcomer
        return True

    def left(self, datapath: GuardedDatapath) -> None:
        """A connection is gone."""
        if self._inside.get(datapath.id) is datapath:
            del self._inside[datapath.id]

    def _turned_away(self, datapath: GuardedDatapath, first: GuardedDatapath) -> bool:
        """Hold a newcomer for some time. Whether the first has gone meanwhile."""
        dpid, place = int(datapath.id), _place(datapath)
        self.notices()
        found = self._newcomers.get((dpid, place))
        if found is None:
            text = (
                f"a second switch, at {place}, claims the datapath id {dpid:#x} of {self._name(dpid)}, which is "
                f"connected from {_place(first)} and answers: it is turned away"
            )
            found = self._newcomers[dpid, place] = Newcomer(text)
            LOG.warning("%s", text)
        found.tries += 1
        found.last = self._clock()
        if found.tries == 1:
            self._changed()
        if first.gone.wait(min(HOLD_LAST, HOLD_FIRST * 2 ** min(found.tries - 1, 10))):
            return True
        self.refused += 1
        found.last = self._clock()
        return False


class GuardedDatapath(controller.Datapath):
    """A connection that has to pass a gate before Ryu's applications hear of it."""

    def __init__(self, gate: Gate, socket: Any, address: Any) -> None:
        self._gate = gate
        self.gone = Event()
        self._asked: dict[int, Event] = {}
        super().__init__(socket, address)

    def set_state(self, state: str) -> None:
        """Called by Ryu, in the greenlet that reads the connection."""
        if state == MAIN_DISPATCHER and self.state == CONFIG_DISPATCHER and not self._gate.admits(self):
            self.close()
            return
        if self.state == DEAD_DISPATCHER:
            # Closed while it was waiting at the gate.
            return
        if state == DEAD_DISPATCHER:
            self._gate.left(self)
            self.gone.send(True)
            for event in self._asked.values():
                event.send(False)
            self._asked.clear()
        super().set_state(state)

    def answers(self, seconds: float) -> bool:
        """Whether an echo request is answered in time."""
        if self.state == DEAD_DISPATCHER:
            return False
        request = self.ofproto_parser.OFPEchoRequest(self)
        event = self._asked[self.set_xid(request)] = Event()
        # A connection that takes nothing any more would block the sender.
        hub.spawn(self.send_msg, request)
        if not event.wait(seconds):
            # Where the event loop itself was held up, the answer is here and only not read yet.
            hub.sleep(0)
            hub.sleep(0)
        self._asked.pop(request.xid, None)
        return bool(event.ready() and event.wait())

    def acknowledge_echo_reply(self, xid: int) -> None:
        """Called by Ryu for every echo reply."""
        event = self._asked.pop(xid, None)
        if event is None:
            super().acknowledge_echo_reply(xid)
        else:
            event.send(True)


def _place(datapath: GuardedDatapath) -> str:
    """Where a connection comes from; the port says nothing, it is another one each time."""
    return str(datapath.address[0]) if datapath.address else "a local socket"
