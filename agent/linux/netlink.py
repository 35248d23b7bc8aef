"""Netlink messages, as bytes, and a socket that sends them and reads what the kernel answers.

pyroute2 takes 1 ms of processor time for a route and 0.3 s to import; a program of its own (ip, nft) takes 13 ms to
start. A path has to be moved before the next packets are lost, so the few messages that are needed are made here.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator

NETLINK_ROUTE, NETLINK_NETFILTER = 0, 12
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST, ACK, DUMP, REPLACE, EXCL, CREATE = 0x1, 0x4, 0x300, 0x100, 0x200, 0x400
NESTED = 0x8000
_SOL_NETLINK, _GET_STRICT_CHK, _EXT_ACK, _CAP_ACK, _ADD_MEMBERSHIP = 270, 12, 11, 10, 1
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_BUFFER_BYTES = 64 << 20
_RECEIVE_BYTES = 1 << 20
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute."""
    size = 4 + len(value)
    return _ATTRIBUTE.pack(size, kind) + value + b"\0" * (-size % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    """Return an attribute of attributes."""
    return attribute(kind | NESTED, b"".join(parts))


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes in some bytes, by kind; of several of one kind, the last."""
    return dict(each_attribute(data))


def each_attribute(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes in some bytes."""
    at = 0
    while at + 4 <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if size < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + size]
        at += size + 3 & ~3


def message(kind: int, flags: int, body: bytes, number: int = 0) -> bytes:
    """Return a message."""
    size = _HEADER.size + len(body)
    return _HEADER.pack(size, kind, flags, number, 0) + body + b"\0" * (-size % 4)


class NetlinkSocket:
    """A connection to the kernel. It belongs to the network namespace in which it was opened."""

    def __init__(self, protocol: int) -> None:
        """Open the connection."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        for option in (_SO_SNDBUFFORCE, _SO_RCVBUFFORCE):
            self._socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        for option in (_GET_STRICT_CHK, _EXT_ACK, _CAP_ACK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._socket.bind((0, 0))
        self._number = 0

    def join(self, groups: Iterable[int]) -> None:
        """Get the notices of some groups from now on; such a socket is for ``notices`` alone."""
        for group in groups:
            self._socket.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
        self._socket.setblocking(False)

    def notices(self) -> Iterator[tuple[int, bytes]]:
        """Yield the notices (kind, body) that have come since the last call.

        Raises:
            OSError: there were more than have room (``ENOBUFS``); some are lost.
        """
        while True:
            try:
                received = list(self._received())
            except BlockingIOError:
                return
            yield from ((kind, body) for _, kind, body in received)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def change(self, requests: Iterable[tuple[int, int, bytes]], *, ignored: Iterable[int] = ()) -> list[OSError]:
        """Send requests (kind, flags, body), each acknowledged, and return the errors; some numbers are no errors."""
        errors = []
        for kind, flags, body in requests:
            self._number += 1
            self._socket.send(message(kind, REQUEST | ACK | flags, body, self._number))
            code = self._acknowledged(self._number)
            if code and code not in ignored:
                errors.append(OSError(code, os.strerror(code)))
        return errors

    def batch(
        self, messages: Iterable[tuple[int, int, bytes]], begin: tuple[int, bytes], end: tuple[int, bytes]
    ) -> None:
        """Send messages that the kernel carries out all at once, or not at all.

        Raises:
            OSError: it has refused one.
        """
        parts, first = [message(begin[0], REQUEST, begin[1], self._number + 1)], self._number + 2
        self._number += 1
        for kind, flags, body in messages:
            self._number += 1
            parts.append(message(kind, REQUEST | flags, body, self._number))
        if self._number < first:
            return
        # The last one is acknowledged after all have been carried out.
        parts[-1] = _with_ack(parts[-1])
        last = self._number
        self._number += 1
        parts.append(message(end[0], REQUEST, end[1], self._number))
        self._socket.send(b"".join(parts))
        code = self._acknowledged(last)
        if code:
            self._drop_answers()
            raise OSError(code, os.strerror(code))

    def dump(self, kind: int, body: bytes, *, ignored: Iterable[int] = ()) -> Iterator[tuple[int, bytes]]:
        """Yield the messages (kind, body) that answer a request for all there is.

        Raises:
            OSError: the kernel has refused it, or what it lists has changed meanwhile too often.
        """
        self._number += 1
        self._socket.send(message(kind, REQUEST | DUMP, body, self._number))
        while True:
            for number, answer, rest in self._received():
                if number != self._number:
                    continue
                if answer in (NLMSG_DONE, NLMSG_ERROR):
                    code = -struct.unpack_from("=i", rest)[0] if len(rest) >= 4 else 0
                    if code and code not in ignored:
                        raise OSError(code, os.strerror(code))
                    return
                yield answer, rest

    def ask(self, kind: int, body: bytes) -> list[bytes]:
        """Return the bodies of the messages that answer a request.

        Raises:
            OSError: the kernel has refused it.
        """
        self._number += 1
        self._socket.send(message(kind, REQUEST | ACK, body, self._number))
        answers = list[bytes]()
        while True:
            for number, answer, rest in self._received():
                if number != self._number:
                    continue
                if answer == NLMSG_ERROR:
                    if code := -struct.unpack_from("=i", rest)[0]:
                        raise OSError(code, os.strerror(code))
                    return answers
                answers.append(rest)

    def _acknowledged(self, last: int) -> int:
        """Wait for the acknowledgement of a message, or an error of one before it; return the error number, or 0."""
        while True:
            for number, kind, body in self._received():
                if kind == NLMSG_ERROR and number <= last:
                    code: int = -struct.unpack_from("=i", body)[0]
                    if code or number == last:
                        return code

    def _drop_answers(self) -> None:
        self._socket.setblocking(False)
        try:
            while self._socket.recv(_RECEIVE_BYTES):
                pass
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
                raise
        finally:
            self._socket.setblocking(True)

    def _received(self) -> Iterator[tuple[int, int, bytes]]:
        data = self._socket.recv(_RECEIVE_BYTES)
        at = 0
        while at + _HEADER.size <= len(data):
            size, kind, _, number, _ = _HEADER.unpack_from(data, at)
            yield number, kind, data[at + _HEADER.size : at + size]
            at += size + 3 & ~3


def _with_ack(one: bytes) -> bytes:
    size, kind, flags, number, port = _HEADER.unpack_from(one)
    return _HEADER.pack(size, kind, flags | ACK, number, port) + one[_HEADER.size :]
