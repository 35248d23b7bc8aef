"""Routes that give packets a carrier, and segments that take packets out of it, by netlink."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Iterable
from ipaddress import IPv6Address, IPv6Network

from agent.errors import HostAgentError
from agent.linux.netlink import CREATE, EXCL, NETLINK_ROUTE, REPLACE, NetlinkSocket, attribute, attributes, nested
from agent.plans.host_plan import OwnSegment

PROTOCOL = 250
"""Of our routes and rules (``ip route show proto 250``), so that they are known again after a restart."""

PRIORITY = 1000
"""Of the rule that leads to our table."""

LOCAL_TABLE = 255

_NEW_ROUTE, _DEL_ROUTE, _GET_ROUTE, _NEW_RULE, _DEL_RULE = 24, 25, 26, 32, 33
_DST, _OIF, _TABLE, _ENCAP_TYPE, _ENCAP = 1, 4, 15, 21, 22
_RULE_PRIORITY, _RULE_TABLE, _RULE_PROTOCOL = 6, 15, 21
_TO_TABLE, _UNICAST, _SCOPE_LINK, _SCOPE_UNIVERSE, _UNSPECIFIED_TABLE = 1, 1, 253, 0, 0
_SEG6, _SEG6_LOCAL = 5, 7
_SRH, _ENCAP_RED = 1, 3
_ACTION, _LOCAL_TABLE, _NH4, _DX4, _DT6 = 1, 3, 4, 6, 7
_ROUTE = struct.Struct("=BBBBBBBBI")
_SRH_HEAD = struct.Struct("=iBBBBBBH")
_SEGMENT_ROUTING, _IN_8_BYTES = 4, 2

MOST_TRIES, TRY_AGAIN_SECONDS = 50, 0.02
"""The kernel has no memory for many of these routes at once now and then (its caches are allocated atomically)."""

Key = tuple[int, bytes, int]


class KernelRoutes:
    """The routes of one table, which a rule leads all packets to."""

    def __init__(self, interface: str, table: int) -> None:
        """Connect to the kernel.

        Raises:
            HostAgentError: there is no such interface.
        """
        try:
            self._index = socket.if_nametoindex(interface)
        except OSError:
            raise HostAgentError(f"--interface: there is no interface {interface!r} here", exit_code=2) from None
        self._table, self._netlink = table, NetlinkSocket(NETLINK_ROUTE)

    def close(self) -> None:
        """Close the connection."""
        self._netlink.close()

    def read(self) -> tuple[frozenset[OwnSegment], dict[bytes, IPv6Address]]:
        """Return the segments and routes that the table holds.

        Raises:
            OSError: the kernel has refused it.
        """
        segments, routes = set(), {}
        for family in (socket.AF_INET, socket.AF_INET6):
            body = _ROUTE.pack(family, 0, 0, 0, _UNSPECIFIED_TABLE, 0, 0, 0, 0) + _number(_TABLE, self._table)
            # A table that never had a route does not exist.
            for _, answer in self._netlink.dump(_GET_ROUTE, body, ignored=(errno.ENOENT,)):
                bits, protocol = answer[1], answer[5]
                parts = attributes(answer[_ROUTE.size :])
                if protocol != PROTOCOL or _DST not in parts or _ENCAP not in parts:
                    continue
                encap, kind = attributes(parts[_ENCAP]), struct.unpack_from("=H", parts[_ENCAP_TYPE])[0]
                if kind == _SEG6:
                    routes[parts[_DST]] = IPv6Address(encap[_SRH][_SRH_HEAD.size :][:16])
                elif kind == _SEG6_LOCAL:
                    inner = 4 if struct.unpack_from("=I", encap[_ACTION])[0] == _DX4 else 6
                    segments.add(OwnSegment(IPv6Network((parts[_DST], bits)), inner))
        return frozenset(segments), routes

    def set(self, routes: Iterable[tuple[bytes, IPv6Address]], segments: Iterable[OwnSegment]) -> None:
        """Add routes and segments; one that is there is replaced.

        Raises:
            OSError: the kernel has refused one.
        """
        wanted = [*(self._route(dst, carrier) for dst, carrier in routes), *(self._segment(each) for each in segments)]
        self._change(_NEW_ROUTE, CREATE | REPLACE, wanted)

    def remove(self, routes: Iterable[bytes], segments: Iterable[OwnSegment]) -> None:
        """Remove routes and segments; one that is not there is no error.

        Raises:
            OSError: the kernel has refused it.
        """
        keys = [*(_key(dst) for dst in routes), *(_segment_key(each.prefix) for each in segments)]
        bodies = [self._head(key) + attribute(_DST, key[1]) + _number(_TABLE, self._table) for key in keys]
        self._change(_DEL_ROUTE, 0, bodies, ignored=(errno.ESRCH, errno.ENOENT))

    def lead(self, on: bool) -> None:
        """Add, or remove, the rules that lead packets to the table.

        Raises:
            OSError: the kernel has refused it.
        """
        bodies = [
            struct.pack("=BBBBBBBBI", family, 0, 0, 0, 0, 0, 0, _TO_TABLE, 0)
            + _number(_RULE_PRIORITY, PRIORITY)
            + _number(_RULE_TABLE, self._table)
            + attribute(_RULE_PROTOCOL, bytes([PROTOCOL]))
            for family in (socket.AF_INET, socket.AF_INET6)
        ]
        if on:
            self._change(_NEW_RULE, CREATE | EXCL, bodies, ignored=(errno.EEXIST,))
        else:
            self._change(_DEL_RULE, 0, bodies, ignored=(errno.ENOENT, errno.ESRCH))

    def _change(self, kind: int, flags: int, bodies: Iterable[bytes], *, ignored: tuple[int, ...] = ()) -> None:
        for body in bodies:
            for attempt in range(MOST_TRIES):
                errors = self._netlink.change([(kind, flags, body)], ignored=ignored)
                if not errors:
                    break
                if errors[0].errno != errno.ENOMEM or attempt + 1 == MOST_TRIES:
                    raise errors[0]
                time.sleep(TRY_AGAIN_SECONDS)

    def _head(self, key: Key) -> bytes:
        family, _, bits = key
        scope = _SCOPE_LINK if family == socket.AF_INET else _SCOPE_UNIVERSE
        return _ROUTE.pack(family, bits, 0, 0, _UNSPECIFIED_TABLE, PROTOCOL, scope, _UNICAST, 0)

    def _body(self, key: Key, kind: int, *encap: bytes) -> bytes:
        parts = (attribute(_DST, key[1]), _number(_OIF, self._index), _number(_TABLE, self._table))
        return b"".join(
            (self._head(key), *parts, attribute(_ENCAP_TYPE, struct.pack("=H", kind)), nested(_ENCAP, *encap))
        )

    def _route(self, dst: bytes, carrier: IPv6Address) -> bytes:
        head = _SRH_HEAD.pack(_ENCAP_RED, 0, _IN_8_BYTES, _SEGMENT_ROUTING, 0, 0, 0, 0)
        return self._body(_key(dst), _SEG6, attribute(_SRH, head + carrier.packed))

    def _segment(self, segment: OwnSegment) -> bytes:
        if segment.inner == 4:
            action = (_number(_ACTION, _DX4), attribute(_NH4, bytes(4)))
        else:
            action = (_number(_ACTION, _DT6), _number(_LOCAL_TABLE, LOCAL_TABLE))
        return self._body(_segment_key(segment.prefix), _SEG6_LOCAL, *action)


def _key(dst: bytes) -> Key:
    return (socket.AF_INET if len(dst) == 4 else socket.AF_INET6), dst, 8 * len(dst)


def _segment_key(prefix: IPv6Network) -> Key:
    return socket.AF_INET6, prefix.network_address.packed, prefix.prefixlen


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))
