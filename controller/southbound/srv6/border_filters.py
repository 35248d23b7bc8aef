"""Filters for the border of the routers, where hosts and others are connected (RFC 8754, section 5.1), for nftables.

Segment ids are for hosts with agents: whoever else could send to them would choose paths through the fabric, past
whatever filters packets by their destination. A router's filter sees what comes from other ports than its cables:

- Packets to segment ids pass from a port of a host with an agent, and only with the address of this host at its link.
  So routers tell the right sender what they drop, and no host has probes or messages sent to another one.
- Segment routing headers do not pass: carriers need none.
- Nobody has an address of the fabric as source but the host whose address it is. So what claims to come from a router
  is from a router.
- Packets to addresses of the fabric, which are those of routers and of ends of host links, pass if they are ICMPv6, but
  no errors: those are for senders that take them for a router's word. So sessions of BGP are out of reach.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import IPv6Network

from controller.southbound.srv6.router_configuration import CableAddresses, InterfaceName, link_ends
from controller.southbound.srv6.segment_ids import SegmentIds

SEGMENT_ROUTING = 4
"""Type of the routing header (RFC 8754, section 2)."""

TABLE = "fairspine_border"


def border_filters(
    ids: SegmentIds, interface: InterfaceName, cables: IPv6Network, without_agents: Collection[int] = ()
) -> list[tuple[str, str]]:
    """Return each switch and its filter, as a file for ``nft -f``.

    Args:
        ids: the ids of the fabric.
        interface: see ``InterfaceName``.
        cables: the network from which ends of cables and host links have their addresses.
        without_agents: hosts that may not send to segment ids.

    Raises:
        InputError: the port of a cable or host is unknown, or the addresses do not suffice.
    """
    fabric, addresses = ids.fabric, CableAddresses(ids.fabric, cables)
    addresses.check()
    inside: dict[str, list[str]] = {switch.name: ['"lo"'] for switch in fabric.switches}
    at_hosts: dict[str, list[tuple[int, str]]] = {name: [] for name in inside}
    for link, (switch, port) in link_ends(fabric, interface).items():
        if link < fabric.first_cable_link:
            host = link - fabric.n_hosts
            at_hosts[switch].append((host, f'"{port}" . {addresses.of_link(host, far=False).ip}'))
        else:
            inside[switch].append(f'"{port}"')
    filters = []
    for switch, ports in inside.items():
        everyone = [row for _, row in at_hosts[switch]]
        agents = [row for host, row in at_hosts[switch] if host not in without_agents]
        filters.append((switch, _text(switch, ports, everyone, agents, ids.block, cables)))
    return filters


def _text(
    switch: str,
    inside: Sequence[str],
    hosts: Sequence[str],
    agents: Sequence[str],
    block: IPv6Network,
    cables: IPv6Network,
) -> str:
    lines = [
        f"# {switch}: what comes from other ports than cables; nft -f, as root",
        f"table ip6 {TABLE}",
        f"delete table ip6 {TABLE}",
        f"table ip6 {TABLE} {{",
        *_set("hosts", hosts),
        *_set("agents", agents),
        "  chain border {",
        "    type filter hook prerouting priority raw; policy accept;",
        f"    iifname {{ {', '.join(inside)} }} accept",
        f"    rt type {SEGMENT_ROUTING} counter drop",
        f"    ip6 daddr {block} iifname . ip6 saddr @agents counter accept",
        f"    ip6 daddr {block} counter drop",
        f"    ip6 saddr {cables} iifname . ip6 saddr != @hosts counter drop",
        f"    ip6 daddr {cables} meta l4proto != ipv6-icmp counter drop",
        f"    ip6 daddr {cables} icmpv6 type < 128 counter drop",
        "  }",
        "}",
    ]
    return "\n".join([*lines, ""])


def _set(name: str, rows: Sequence[str]) -> list[str]:
    elements = [f"    elements = {{ {', '.join(rows)} }}"] if rows else []
    return [f"  set {name} {{", "    type ifname . ipv6_addr", *elements, "  }"]
