"""Messages of watch windows (``controller.southbound.watch_rules``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.ingress import FLOW_TABLE, IPV4, TO_ROCE, UDP_ONLY
from controller.southbound.openflow import messages
from controller.southbound.rule_reading import FLOW_STATS, RuleReader, entries
from controller.southbound.rules import COOKIE_MASK, WATCH_PREFIX, Rule
from controller.southbound.watch_rules import (
    COUNTING_COOKIE,
    WINDOW_COOKIE,
    CountedRule,
    counted_rule,
)

WINDOW_SECONDS = 1
"""After which a switch removes watch rules by itself."""

IDLE_SECONDS = 300
"""Without a packet, after which a switch removes a counting rule."""

_COOKIE_AT, _PACKETS_AT, _OCTETS_AT, _LEAST = 24, 32, 40, 56


def watch(datapath: Any, rule: Rule) -> Any:
    """Build the message that puts a watch rule."""
    message = messages.put_rule(datapath, rule, 0)
    message.cookie, message.hard_timeout = WINDOW_COOKIE, WINDOW_SECONDS
    return message


def count(datapath: Any, rule: Rule) -> Any:
    """Build the message that puts a counting rule."""
    message = messages.put_rule(datapath, rule, 0)
    message.cookie, message.idle_timeout = COUNTING_COOKIE, IDLE_SECONDS
    return message


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


def read_counters(datapath: Any) -> Any:
    """Build the request for the counters of all rules for RoCEv2 packets, of any cookie."""
    fields = parser.OFPMatch(**dict((IPV4, UDP_ONLY, TO_ROCE)))
    return parser.OFPFlowStatsRequest(datapath, 0, FLOW_TABLE, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0, fields)


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
            found = counted_rule(cookie, reader.rule(part, at, end), packets, octets)
            if found is not None:
                yield found
