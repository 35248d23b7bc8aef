"""Requests to one switch and the replies that belong to them, matched by transaction id."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from eventlet.event import Event
from eventlet.timeout import Timeout
from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.openflow import messages, raw_replies

BATCH = 32
"""Messages per write: few enough that encoding them holds the event loop for some 3 ms only."""


class SwitchGone(Exception):
    """The connection ended, or the switch did not answer in time."""


class NotSupported(SwitchGone):
    """The switch has answered a request with an error."""


class Refused(NamedTuple):
    """An error message, and what was sent that it answers."""

    error: Any
    cause: Any


class Exchange:
    """One connection to a switch. All methods block the calling greenlet only."""

    def __init__(self, datapath: Any, timeout: float = 5.0) -> None:
        self.datapath = datapath
        self.timeout = timeout
        self._waiting: dict[int, Event] = {}
        self._parts: dict[int, list[Any]] = {}
        self._sent: dict[int, Any] = {}
        self._errors: list[Refused] = []

    def ask(self, message: Any) -> list[Any]:
        """Send a statistics request; its reply's entries, all parts together.

        Raises:
            SwitchGone: no (complete) answer.
        """
        xid = self.datapath.set_xid(message)
        self._parts[xid] = []
        with self._reply(xid) as event:
            self._write([message])
            self._await(event, lambda: len(self._parts[xid]))
            return self._parts.pop(xid, [])

    def ask_raw(self, message: Any) -> list[bytes]:
        """Send a statistics request; the messages of its reply as they came, none of them parsed.

        Raises:
            SwitchGone: no (complete) answer.
        """
        xid = self.datapath.set_xid(message)
        parts: list[bytes] = []
        with self._reply(xid) as event:

            def taken(part: bytes, more: bool) -> None:
                parts.append(part)
                if not more and not event.ready():
                    event.send(None)

            raw_replies.take(self.datapath, xid, taken)
            try:
                self._write([message])
                self._await(event, lambda: len(parts))
            finally:
                raw_replies.leave(self.datapath, xid)
        return parts

    def settle(self) -> list[Refused]:
        """Send a barrier and wait for its answer; what was refused since the last one.

        Raises:
            SwitchGone: no answer.
        """
        message = messages.barrier(self.datapath)
        xid = self.datapath.set_xid(message)
        with self._reply(xid) as event:
            self._write([message])
            self._await(event)
        errors, self._errors = self._errors, []
        self._sent.clear()
        return errors

    def send(self, queue: Iterable[tuple[Any, Any]]) -> None:
        """Send messages in batches, letting other greenlets run in between.

        Args:
            queue: (message, what to tell of it if it is refused).

        Raises:
            SwitchGone: the connection is closing.
        """
        batch: list[Any] = []
        for message, cause in queue:
            self._sent[self.datapath.set_xid(message)] = cause
            batch.append(message)
            if len(batch) == BATCH:
                self._write(batch)
                hub.sleep(0)
                batch = []
        self._write(batch)

    # -- what the application's handlers call -----------------------------------------------------------------

    def replied(self, message: Any) -> None:
        """A statistics or barrier reply has come."""
        event = self._waiting.get(message.xid)
        if event is None or event.ready():
            return
        if message.xid in self._parts:
            self._parts[message.xid].extend(message.body)
            if message.flags & ofp.OFPMPF_REPLY_MORE:
                return
        event.send(None)

    def failed(self, message: Any) -> bool:
        """An error message has come; whether it answers something that was sent here."""
        event = self._waiting.get(message.xid)
        if event is not None and not event.ready():
            event.send_exception(NotSupported("the switch refused the request"))
            return True
        if message.xid not in self._sent:
            return False
        self._errors.append(Refused(message, self._sent[message.xid]))
        return True

    def closed(self) -> None:
        """The connection is gone: whoever waits hears it now."""
        for event in self._waiting.values():
            if not event.ready():
                event.send_exception(SwitchGone("the connection ended"))

    # -- inside ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reply(self, xid: int) -> Iterator[Event]:
        event = self._waiting[xid] = Event()
        try:
            yield event
        finally:
            del self._waiting[xid]
            self._parts.pop(xid, None)

    def _await(self, event: Event, progress: Callable[[], int] = lambda: 0) -> None:
        """Wait; an answer in parts may take as long as it will, as long as parts keep coming."""
        before = -1
        while before != progress():
            before = progress()
            with Timeout(self.timeout, False):
                event.wait()
                return
        raise SwitchGone(f"no answer within {self.timeout:g} s")

    def _write(self, batch: list[Any]) -> None:
        data = bytearray()
        for message in batch:
            message.serialize()
            data += message.buf
        if data and not self.datapath.send(bytes(data)):
            raise SwitchGone("the connection is closing")
