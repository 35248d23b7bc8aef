"""The configuration of routers for SRv6 from hosts: addresses of cables, locators and static routes.

It is made from a fabric alone and does not depend on plans. Each cable and each host link has a network of two
addresses (RFC 6164), and each end one of them; so next hops are plain addresses, in any router's language. Those of
host links are in one network for each leaf, to which all routers have a route: so senders hear what routers drop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, IPv6Interface, IPv6Network

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.southbound.srv6.router_tables import RemoveId, RouterTable, SendOver, router_tables
from controller.southbound.srv6.segment_ids import LEAVES, IdRange, SegmentIds

DEFAULT_CABLES = IPv6Network("fd00:fab::/48")
"""Addresses of the ends of cables and host links (RFC 4193)."""

MOST_CABLE_BITS = 48
"""Behind them, 16 bits say of which leaf a host link is, so that routers have one route to all hosts of a leaf."""

InterfaceName = Callable[[str, int], str]
"""Returns the name of the interface of a switch's port."""


@dataclass(frozen=True)
class NextHop:
    """Where a route leads: the address at the other end, and the interface of this one."""

    address: IPv4Address | IPv6Address
    interface: str


@dataclass(frozen=True)
class StaticRoute:
    """Packets to ``prefix`` go to one of ``next_hops``, by a hash; to none of them: the sender is told.

    Attributes:
        to_host: the next hop is a host, which takes part in no routing protocol.
    """

    prefix: IPv6Network
    next_hops: tuple[NextHop, ...]
    to_host: bool


@dataclass(frozen=True)
class RouterConfiguration:
    """What one router is configured with.

    Attributes:
        name: of the switch.
        block: of the segment ids.
        locators: its own ids, each the prefix of an id; the router removes it (``uN``).
        interfaces: names and addresses.
        routes: static routes; longer prefixes come first in a router.
        unreachable: prefixes that are unreachable where no other route leads to them.
        passed_over: prefixes of ids that are removed where no other route leads to them.
    """

    name: str
    block: IPv6Network
    locators: tuple[IPv6Network, ...]
    interfaces: tuple[tuple[str, IPv6Interface], ...]
    routes: tuple[StaticRoute, ...]
    unreachable: tuple[IPv6Network, ...]
    passed_over: tuple[IPv6Network, ...]

    def without_routes_over_cables(self) -> RouterConfiguration:
        """Return what is left to configure where routers learn routes from each other."""
        return replace(self, routes=tuple(route for route in self.routes if route.to_host))


@dataclass(frozen=True)
class CableAddresses:
    """The addresses of both ends of each cable and host link."""

    fabric: Fabric
    network: IPv6Network = DEFAULT_CABLES

    def check(self) -> None:
        """See whether there are addresses for all.

        Raises:
            InputError: the network is too small.
        """
        if self.network.prefixlen > MOST_CABLE_BITS:
            raise InputError(
                f"needs a prefix of {MOST_CABLE_BITS} bits or fewer", field="cables", value=str(self.network)
            )

    def of_leaf(self, leaf: int) -> IPv6Network:
        """Return the network that has the addresses of all host links of a leaf."""
        return IPv6Network((int(self.network.network_address) + ((leaf + 1) << 64), 64))

    @property
    def of_leaves(self) -> IPv6Network:
        """The network of those of all leaves."""
        return IPv6Network((int(self.network.network_address), MOST_CABLE_BITS + LEAVES.bits))

    def of_link(self, link: int, *, far: bool) -> IPv6Interface:
        """Return the address at an end of a directed link: the far one, where it leads, or the near one."""
        hosts, first = self.fabric.n_hosts, self.fabric.first_cable_link
        # The lower end of each has the even address.
        if link >= first:
            number, down = divmod(link - first, 2)
            network = int(self.network.network_address)
        else:
            host, down = link % hosts, int(link >= hosts)
            number = self.fabric.seats[host]
            network = int(self.of_leaf(int(self.fabric.host_leaf[host])).network_address)
        upper = far != bool(down)
        return IPv6Interface((network + 2 * number + upper, 127))


def router_configurations(
    ids: SegmentIds, interface: InterfaceName, cables: IPv6Network = DEFAULT_CABLES
) -> tuple[RouterConfiguration, ...]:
    """Return the configuration of each switch, layer by layer.

    Args:
        ids: the ids of the fabric.
        interface: see ``InterfaceName``.
        cables: the network from which ends of cables have their addresses.

    Raises:
        InputError: there are not enough ids or addresses; the port of a cable or host is unknown; or the networks
            overlap.
    """
    addresses = CableAddresses(ids.fabric, cables)
    addresses.check()
    if cables.overlaps(ids.block):
        raise InputError(f"overlaps the block {ids.block} of segment ids", field="cables", value=str(cables))
    tables, ends = router_tables(ids), link_ends(ids.fabric, interface)
    return tuple(
        _configuration(ids, addresses, switch.name, tables[switch.name], ends) for switch in ids.fabric.switches
    )


def link_ends(fabric: Fabric, interface: InterfaceName) -> dict[int, tuple[str, str]]:
    """Return the switch and interface at the near end of each directed link that leaves a switch.

    Raises:
        InputError: neither interface nor port is known.
    """

    def name(switch: str, given: str | None, port: int | None, field: str, value: str) -> tuple[str, str]:
        if given is None and port is None:
            raise InputError(f"neither port nor interface of {switch} is known", field=field, value=value)
        return switch, interface(switch, port) if given is None and port is not None else str(given)

    ends = {}
    for number, cable in enumerate(fabric.cables):
        link, shown = fabric.first_cable_link + 2 * number, fabric.cable_names[number]
        ends[link] = name(cable.lower, cable.lower_interface, cable.lower_port, "links", shown)
        ends[link + 1] = name(cable.upper, cable.upper_interface, cable.upper_port, "links", shown)
    for number, host in enumerate(fabric.hosts):
        ends[fabric.n_hosts + number] = name(host.leaf, host.interface, host.port, "hosts", host.name)
    return ends


def _configuration(
    ids: SegmentIds, addresses: CableAddresses, name: str, table: RouterTable, ends: dict[int, tuple[str, str]]
) -> RouterConfiguration:
    own = tuple((end[1], addresses.of_link(link, far=False)) for link, end in ends.items() if end[0] == name)
    locators: list[IPv6Network] = []
    routes, unreachable, passed_over = [], [], []
    # Messages to senders (ICMPv6) take the ways of packets to their leaf.
    hosts_of = {ids.switch(0, leaf): addresses.of_leaf(leaf) for leaf in range(ids.fabric.n_leaves)}
    if not ids.given:
        hosts_of[LEAVES] = addresses.of_leaves
    for entry in table:
        prefix = ids.prefix(entry.ids)
        if isinstance(entry.action, SendOver):
            hops = tuple(NextHop(addresses.of_link(link, far=True).ip, ends[link][1]) for link in entry.action.links)
            to_host = entry.action.links[0] < ids.fabric.first_cable_link
            routes.append(StaticRoute(prefix, hops, to_host))
            if entry.ids in hosts_of:
                routes.append(StaticRoute(hosts_of[entry.ids], hops, to_host))
        elif not isinstance(entry.action, RemoveId):
            unreachable += [prefix, hosts_of[entry.ids]]
        elif entry.last:
            passed_over.append(prefix)
        else:
            locators += [ids.prefix(IdRange(entry.ids.first + n)) for n in range(entry.ids.count)]
            unreachable += [hosts_of[entry.ids]] if entry.ids in hosts_of else []
    return RouterConfiguration(
        name, ids.block, tuple(locators), own, tuple(routes), tuple(unreachable), tuple(passed_over)
    )
