"""Messages of watch windows (``controller.southbound.rollout.watch_rules``)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.enforcement.ingress import FLOW_TABLE, IPV4, TCP_ONLY, TO_ROCE, UDP_ONLY, Field
from controller.southbound.openflow.enforcing import messages
from controller.southbound.rollout.watch_rules import (
    COUNTING_COOKIE,
    WINDOW_COOKIE,
    CountedRule,
    counted_rule,
)
from controller.southbound.rules.rule import COOKIE_MASK, WATCH_PREFIX, Rule, match
from controller.southbound.wire.rule_bytes import Template, match_bytes, put_passing_rule, template
from controller.southbound.wire.rule_reading import FLOW_STATS, RuleReader, entries

WINDOW_SECONDS = 1
"""After which a switch removes watch rules by itself."""

IDLE_SECONDS = 300
"""Without a packet, after which a switch removes a counting rule."""


def _read_counters(*fields: Field) -> Template:
    return template(
        ofp.OFPT_MULTIPART_REQUEST,
        struct.pack("!HH4xB3xII4xQQ", ofp.OFPMP_FLOW, 0, FLOW_TABLE, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0)
        + match_bytes(match(**dict(fields))),
    )


_READ_COUNTERS = _read_counters(IPV4, UDP_ONLY, TO_ROCE), _read_counters(IPV4, TCP_ONLY)

_COOKIE_AT, _PACKETS_AT, _OCTETS_AT, _LEAST = 24, 32, 40, 56


class WatchMessage:
    """A message with Ryu's interface, made of bytes: Ryu takes a sixth of a millisecond of the event loop for each.

    A large fabric needs a thousand of them a second.

    Attributes:
        xid: transaction id; ``None``: it has none yet.
        buf: the bytes, after ``serialize``.
    """

    def __init__(self, datapath: Any, template: Template) -> None:
        """Prepare it for a connection."""
        self.datapath, self._template = datapath, template
        self.xid: int | None = None
        self.buf = b""

    def set_xid(self, xid: int) -> None:
        """Set the transaction id."""
        self.xid = xid

    def serialize(self) -> None:
        """Make the bytes."""
        assert self.xid is not None
        self.buf = self._template.message(self.xid)


def watch(rule: Rule) -> Template:
    """Return the message that puts a watch rule."""
    return put_passing_rule(rule, WINDOW_COOKIE, hard=WINDOW_SECONDS)


def count(rule: Rule) -> Template:
    """Return the message that puts a counting rule."""
    return put_passing_rule(rule, COUNTING_COOKIE, idle=IDLE_SECONDS)


def remove_windows(datapath: Any) -> Any:
    """Build the message that removes all watch rules."""
    return _remove(datapath, WINDOW_COOKIE, messages.FULL_MASK)


def remove_all(datapath: Any) -> Any:
    """Build the message that removes all watch and counting rules."""
    return _remove(datapath, WATCH_PREFIX << 48, COOKIE_MASK)


def _remove(datapath: Any, cookie: int, mask: int) -> Any:
    return parser.OFPFlowMod(
        datapath,
        cookie=cookie,
        cookie_mask=mask,
        table_id=FLOW_TABLE,
        command=ofp.OFPFC_DELETE,
        buffer_id=messages.NO_BUFFER,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=parser.OFPMatch(),
    )


def read_counters(datapath: Any) -> list[WatchMessage]:
    """Build the requests for the counters of all rules for RoCEv2 packets, and of all for TCP, of any cookie."""
    return [WatchMessage(datapath, each) for each in _READ_COUNTERS]


def counters(parts: Iterable[bytes], reader: RuleReader) -> list[CountedRule]:
    """Return the rules of the reply that are for one sender and one receiver, with their counters.

    Raises:
        ValueError: it is no such reply, or cut.
    """
    return list(_counters(parts, reader))


def _counters(parts: Iterable[bytes], reader: RuleReader) -> Iterator[CountedRule]:
    for part in parts:
        for at, end in entries(part, FLOW_STATS, _LEAST):
            cookie, packets, octets = (
                int.from_bytes(part[begin : begin + 8], "big")
                for begin in (at + _COOKIE_AT, at + _PACKETS_AT, at + _OCTETS_AT)
            )
            counter = counted_rule(cookie, reader.rule(part, at, end), packets, octets)
            if counter is not None:
                yield counter
