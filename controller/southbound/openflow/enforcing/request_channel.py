"""Requests to one switch and the replies that belong to them, matched by transaction id."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from eventlet.event import Event
from eventlet.timeout import Timeout
from ryu.lib import hub

from controller.southbound.openflow.connections import raw_replies
from controller.southbound.openflow.enforcing import messages
from controller.southbound.rollout.write_permission import WritePermission
from controller.southbound.wire.rule_bytes import Template

BATCH_BYTES = 64 * 1024
"""Bytes of messages per write: putting them together holds the event loop for less than a millisecond."""

LONGEST_REPLY = 30.0
"""Seconds for all parts of a reply together. Other switches may wait for this one meanwhile."""


class SwitchGone(Exception):
    """The connection ended, or the switch did not answer in time."""


class NotSupported(SwitchGone):
    """The switch has answered a request with an error."""


class NotPermitted(SwitchGone):
    """This controller may not change switches now."""


class Refused(NamedTuple):
    """An error message, and what was sent that it answers."""

    error: Any
    cause: Any


class _Asked(NamedTuple):
    """A reply that is waited for: its messages so far, and what is sent when the last one has come."""

    parts: list[bytes]
    last: Event

    def taken(self, part: bytes, more: bool) -> None:
        self.parts.append(part)
        if not more and not self.last.ready():
            self.last.send(None)

    def so_far(self) -> int:
        return len(self.parts)


class RequestChannel:
    """One connection to a switch. All methods block the calling greenlet only."""

    def __init__(self, datapath: Any, timeout: float = 5.0, permission: WritePermission | None = None) -> None:
        """Exchange messages over one connection.

        Args:
            datapath: the connection.
            timeout: seconds to wait for an answer.
            permission: to change the switch; ``None``: always given.
        """
        self.datapath = datapath
        self._permission = permission or WritePermission()
        self.timeout = timeout
        self._waiting: dict[int, Event] = {}
        self._sent: dict[int, Any] = {}
        self._errors: list[Refused] = []
        self._refused: set[int] = set()
        raw_replies.expect(datapath, self._expects)

    def ask_raw(self, message: Any) -> list[bytes]:
        """Send a statistics request; the messages of its reply as they came, none of them parsed.

        Raises:
            SwitchGone: no (complete) answer.
        """
        with self._parts(message) as asked:
            self._write([message])
            self._await(asked.last, asked.so_far)
            return asked.parts

    def ask_settled(self, *requests: Any) -> list[list[bytes]]:
        """Send a barrier and statistics requests behind it, all at once; the replies as those of ``ask_raw``.

        They show the rules after all earlier messages were processed (OpenFlow 1.3.5, section 6.2).

        Raises:
            SwitchGone: no (complete) answer.
        """
        barrier = messages.barrier(self.datapath)
        with contextlib.ExitStack() as stack:
            passed = stack.enter_context(self._reply(self.datapath.set_xid(barrier)))
            asked = [stack.enter_context(self._parts(request)) for request in requests]
            self._write([barrier, *requests])
            self._await(passed)
            self._forget()
            for each in asked:
                self._await(each.last, each.so_far)
            return [each.parts for each in asked]

    def request(self, message: Any) -> Any:
        """Send a request that is answered by one message; this message.

        Raises:
            NotSupported: the switch has answered with an error.
            SwitchGone: no answer.
        """
        xid = self.datapath.set_xid(message)
        with self._reply(xid) as event:
            self._write([message])
            self._await(event)
            return event.wait()

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
        errors = self._errors
        self._forget()
        return errors

    def send_templates(self, templates: Iterable[Template], causes: Iterable[Any]) -> None:
        """Send messages that are encoded already, in batches, letting other greenlets run in between.

        Every message that changes a switch is sent here, and only with the permission to do so.

        Args:
            templates: the encoded messages.
            causes: the value to report for each message if it is refused.

        Raises:
            NotPermitted: the permission is withheld; the messages of earlier batches are sent.
            SwitchGone: the connection is closing.
        """
        datapath, sent, size = self.datapath, self._sent, 0
        xid, most = datapath.xid, datapath.ofproto.MAX_XID
        out: list[bytes] = []
        for (head, rest), cause in zip(templates, causes, strict=True):
            xid = (xid + 1) & most
            sent[xid] = cause
            out += (head, xid.to_bytes(4, "big"), rest)
            size += 8 + len(rest)
            if size >= BATCH_BYTES:
                datapath.xid = xid
                self._send_change(b"".join(out))
                hub.sleep(0)
                out, size, xid = [], 0, datapath.xid
        datapath.xid = xid
        self._send_change(b"".join(out))

    def send_change(self, message: Any) -> None:
        """Send a change whose outcome nobody waits for.

        Raises:
            NotPermitted: the permission is withheld.
            SwitchGone: the connection is closing.
        """
        self.datapath.set_xid(message)
        message.serialize()
        self._send_change(bytes(message.buf))

    def offer_change(self, message: Any) -> bool:
        """Do the same without waiting; return whether it was sent: there is permission, and room in the queue."""
        return not self._permission.withheld and bool(self.datapath.offer_msg(message))

    # -- what the application's handlers call -----------------------------------------------------------------

    def replied(self, message: Any) -> None:
        """Wake the request that a barrier reply answers."""
        event = self._waiting.get(message.xid)
        if event is not None and not event.ready():
            event.send(message)

    def failed(self, message: Any) -> bool:
        """Record an error message; return whether it answers something that was sent here."""
        event = self._waiting.get(message.xid)
        if event is not None and not event.ready():
            event.send_exception(NotSupported("the switch refused the request"))
            return True
        if message.xid not in self._sent:
            return False
        if message.xid in self._refused:
            # A second error for the same message is ignored.
            return True
        self._refused.add(message.xid)
        self._errors.append(Refused(message, self._sent[message.xid]))
        return True

    def closed(self) -> None:
        """Raise ``SwitchGone`` in all waiting requests: the connection has ended."""
        for event in self._waiting.values():
            if not event.ready():
                event.send_exception(SwitchGone("the connection ended"))

    def _expects(self, xid: int) -> bool:
        """Return whether an error or a barrier reply with this transaction id answers something."""
        return xid in self._waiting or xid in self._sent

    # -- inside ---------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Forget the messages before an answered barrier: no errors for them can follow."""
        self._errors = []
        self._sent.clear()
        self._refused.clear()

    @contextlib.contextmanager
    def _parts(self, message: Any) -> Iterator[_Asked]:
        """Collect the parts of the reply to a statistics request that is about to be sent."""
        xid = self.datapath.set_xid(message)
        with self._reply(xid) as event:
            asked = _Asked([], event)
            raw_replies.take(self.datapath, xid, asked.taken)
            try:
                yield asked
            except BaseException:
                # The traceback holds this frame, in a cycle that only a full collection ends, minutes later.
                asked.parts.clear()
                raise
            finally:
                raw_replies.leave(self.datapath, xid)

    @contextlib.contextmanager
    def _reply(self, xid: int) -> Iterator[Event]:
        event = self._waiting[xid] = Event()
        try:
            yield event
        finally:
            del self._waiting[xid]

    def _await(self, event: Event, progress: Callable[[], int] = lambda: 0) -> None:
        """Wait for the answer; one in parts may take ``LONGEST_REPLY`` in all, as long as parts keep coming."""
        before, deadline = -1, time.monotonic() + LONGEST_REPLY
        while before != progress():
            before, left = progress(), deadline - time.monotonic()
            if left <= 0:
                raise SwitchGone(f"no complete answer within {LONGEST_REPLY:g} s")
            with Timeout(min(self.timeout, left), False):
                event.wait()
                return
        raise SwitchGone(f"no answer within {self.timeout:g} s")

    def _write(self, batch: list[Any]) -> None:
        data = bytearray()
        for message in batch:
            message.serialize()
            data += message.buf
        self._send(bytes(data))

    def _send_change(self, data: bytes) -> None:
        if self._permission.withheld:
            raise NotPermitted(self._permission.withheld)
        self._send(data)

    def _send(self, data: bytes) -> None:
        if data and not self.datapath.send(data):
            raise SwitchGone("the connection is closing")
