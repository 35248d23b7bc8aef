"""Rules and groups as frozen data.

The vocabulary is OpenFlow 1.3's, cut down to what fairspine uses, plus Open vSwitch's ``bundle`` action. What is never
right apart is one action here: an MPLS header is pushed together with its label. A match is a sorted tuple of (field,
value) with OpenFlow's field names; a masked value is (value, mask). IPv4 addresses are dotted strings, as Ryu reads
them back, so that rules compare equal with what a switch says it holds; IPv6 addresses are in their shortest spelling.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Literal, NamedTuple

COOKIE_PREFIX = 0xFA15
"""First 16 bits of the cookie of every rule of ours. 16 bits for the instance that wrote it (``Store.instance``; 0: a
version that did not say) and 32 for the epoch in which it did follow."""

INSTANCE_SHIFT, INSTANCE_MASK, EPOCH_MASK = 32, 0xFFFF, 0xFFFFFFFF

COOKIE_MASK = 0xFFFF << 48

WATCH_PREFIX = 0xFA16
"""First 16 bits of the cookies of the rules of watch windows, which are not part of what is installed
(``watch_rules``)."""

GROUP_BASE = 0xFA000000
GROUP_MASK = 0xFF000000
"""Groups carry no cookie: ours are those whose id starts with this byte."""

ETH_MPLS, ETH_IPV6 = 0x8847, 0x86DD

MatchValue = int | str | tuple[int, int] | tuple[str, str]
Match = tuple[tuple[str, MatchValue], ...]


# Each action names its kind: as tuples, sending out of port 17 and pushing label 17 would be equal otherwise.


class Output(NamedTuple):
    """Send out of a port."""

    port: int
    kind: Literal["output"] = "output"


class ToGroup(NamedTuple):
    """Hand to a group."""

    group: int
    kind: Literal["group"] = "group"


class Bundle(NamedTuple):
    """Open vSwitch: hash the 5-tuple over the live ones of these ports (highest random weight)."""

    ports: tuple[int, ...]
    kind: Literal["bundle"] = "bundle"


class ToController(NamedTuple):
    """Send to the controller, up to this many bytes."""

    max_len: int
    kind: Literal["controller"] = "controller"


class PushMpls(NamedTuple):
    """Push an MPLS header with this label, the first one as the bottom of the stack (RFC 3032)."""

    label: int
    kind: Literal["push_mpls"] = "push_mpls"


class PopMpls(NamedTuple):
    """Pop the outermost MPLS header; what is under it is of this Ethernet type."""

    eth_type: int
    kind: Literal["pop_mpls"] = "pop_mpls"


class SetDscp(NamedTuple):
    """Write the DSCP of an IPv4 packet (RFC 2474); its bits of congestion notification stay."""

    code_point: int
    kind: Literal["set_dscp"] = "set_dscp"


class SetTrafficClass(NamedTuple):
    """Write the traffic class of the outermost MPLS header (RFC 5462); headers that are pushed later copy it."""

    number: int
    kind: Literal["set_traffic_class"] = "set_traffic_class"


class ShiftIds(NamedTuple):
    """Open vSwitch: remove the first 16 bits behind the first ``block_bits`` of the IPv6 destination (RFC 9800).

    The rest moves up, and zeros follow. The packet may leave by the port that it came in by, as it would leave a
    router, which OpenFlow allows no output else.
    """

    block_bits: int
    kind: Literal["shift_ids"] = "shift_ids"


class Resubmit(NamedTuple):
    """Open vSwitch: look the packet up in a table, which may be the one of this rule, and do what is found."""

    table: int
    kind: Literal["resubmit"] = "resubmit"


class SetEthDst(NamedTuple):
    """Write the destination address of Ethernet."""

    mac: str
    kind: Literal["set_eth_dst"] = "set_eth_dst"


Action = (
    Output
    | ToGroup
    | Bundle
    | ToController
    | PushMpls
    | PopMpls
    | SetDscp
    | SetTrafficClass
    | ShiftIds
    | Resubmit
    | SetEthDst
)


class Rule(NamedTuple):
    """One flow entry. No actions and no ``goto``: drop (and count).

    ``metadata`` is written before going on to table ``goto``. ``meter`` drops what is too much
    (``leaf_guards.METERS``).
    """

    table: int
    priority: int
    match: Match
    actions: tuple[Action, ...] = ()
    goto: int | None = None
    metadata: int | None = None
    meter: int | None = None

    @property
    def key(self) -> RuleKey:
        """The fields by which OpenFlow identifies a rule within its switch."""
        return (self.table, self.priority, self.match)


RuleKey = tuple[int, int, Match]


class Bucket(NamedTuple):
    """One bucket: its actions, at most one of each kind, live while ``watch_port`` (or ``watch_group``) is."""

    actions: tuple[Action, ...]
    watch_port: int | None = None
    watch_group: int | None = None


class Group(NamedTuple):
    """A ``select`` group (a hash picks among live buckets) or a ``failover`` one (the first live bucket).

    Groups are named by their content and never modified: a change is a new group, so that rules can move over to it
    one by one and nothing is ever half changed.
    """

    id: int
    kind: str
    buckets: tuple[Bucket, ...]


def port_bucket(port: int, actions: tuple[Action, ...] = ()) -> Bucket:
    """Return the bucket that does something and sends out of a port, while the port is live."""
    return Bucket((*actions, Output(port)), watch_port=port)


def match(**fields: MatchValue) -> Match:
    """Return a match from OpenFlow field names: ``match(eth_type=0x800, ipv4_dst="10.0.1.1")``."""
    return tuple(sorted(fields.items()))


@lru_cache(maxsize=64 * 1024)
def number_of(value: int | str) -> int:
    """Return the value of a match field as the number that is on the wire.

    Raises:
        ValueError: it is no number, IP address or MAC address.
    """
    if isinstance(value, int):
        return value
    if ":" not in value:
        return int(IPv4Address(value))
    if value[2::3] == ":::::":
        return int(value.replace(":", ""), 16)
    return int(IPv6Address(value))
