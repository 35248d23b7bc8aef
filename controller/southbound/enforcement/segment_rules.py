"""The rules by which OpenFlow switches read segments, as routers do: those of ``srv6/router_tables``.

Table 0 hands packets to an address in the block on to a table of their own. There, a rule for each range of ids says
where they go; one that removes an id looks the packet up again. Where all links of an entry are dead, a fail-over group
does at once what the router's next entry says: another link, or to remove the id of the switch that is out of reach.
So rules depend on neither plans nor failures.

Hosts take only packets to their own MAC address, and no neighbour is asked on the way: the leaf of a host writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv6Network

from controller.model.fabric import Fabric
from controller.model.switch_key import SwitchKey
from controller.southbound.forwarding.prefix_rules import output, spread
from controller.southbound.rules.priorities import LOWEST_SEGMENT, SEGMENTS
from controller.southbound.rules.rule import (
    ETH_IPV6,
    Action,
    Bucket,
    MatchValue,
    Resubmit,
    Rule,
    SetEthDst,
    ShiftIds,
    ToGroup,
    match,
    port_bucket,
)
from controller.southbound.rules.rule_set import RuleBuilder
from controller.southbound.srv6.router_tables import RemoveId, RouterTable, SendOver, TableEntry, router_tables
from controller.southbound.srv6.segment_ids import SegmentIds

SEGMENT_TABLE = 3
"""Tables 1 and 2 have parallel cables and labels."""


def add_segment_rules(ids: SegmentIds, builders: Mapping[SwitchKey, RuleBuilder], ecmp_action: str) -> None:
    """Add the rules of every OpenFlow switch.

    Args:
        ids: of a fabric with the port numbers that are known; a link without them is none.
        builders: of every switch, by key.
        ecmp_action: ``bundle`` or ``select``: how packets are spread over several links.

    Raises:
        InputError: there are not enough ids (``SegmentIds.check``).
    """
    tables, ports = router_tables(ids), _ports(ids.fabric)
    for switch in ids.fabric.switches:
        if isinstance(switch.key, int) and switch.key in builders:
            _Switch(ids, switch.name, ports, builders[switch.key], ecmp_action).add(tables[switch.name])


def leads_to_segments(rule: Rule) -> bool:
    """Return whether a rule hands packets to the table of segments."""
    return rule.goto == SEGMENT_TABLE and rule.priority == SEGMENTS


def _ports(fabric: Fabric) -> dict[int, tuple[str, int]]:
    """Return the switch and port at which each directed link begins that leaves a switch."""
    ports = {}
    for number, host in enumerate(fabric.hosts):
        if host.port is not None:
            ports[fabric.n_hosts + number] = host.leaf, host.port
    for number, cable in enumerate(fabric.cables):
        link = fabric.first_cable_link + 2 * number
        if cable.lower_port is not None and cable.upper_port is not None:
            ports[link], ports[link + 1] = (cable.lower, cable.lower_port), (cable.upper, cable.upper_port)
    return ports


class _Switch:
    """Makes the rules of one switch."""

    def __init__(
        self,
        ids: SegmentIds,
        name: str,
        ports: Mapping[int, tuple[str, int]],
        builder: RuleBuilder,
        ecmp_action: str,
    ) -> None:
        self._ids, self._ports, self._builder, self._ecmp_action = ids, ports, builder, ecmp_action
        self._first_cable = ids.fabric.first_cable_link
        self._own_ports = tuple(sorted(port for at, port in ports.values() if at == name))
        self._remove: tuple[Action, ...] = (ShiftIds(ids.block.prefixlen), Resubmit(SEGMENT_TABLE))

    def add(self, table: RouterTable) -> None:
        self._builder.add(Rule(0, SEGMENTS, self._to(self._ids.block), goto=SEGMENT_TABLE))
        for ids in dict.fromkeys(entry.ids for entry in table):
            # What a router would use, the most special entry first.
            order = sorted(
                (entry for entry in table if ids.bits >= entry.ids.bits and ids.first in entry.ids),
                key=lambda entry: (-entry.ids.bits, entry.last),
            )
            prefix = self._ids.prefix(ids)
            self._builder.add(Rule(SEGMENT_TABLE, LOWEST_SEGMENT + ids.bits, self._to(prefix), self._actions(order)))

    @staticmethod
    def _to(prefix: IPv6Network) -> tuple[tuple[str, MatchValue], ...]:
        return match(eth_type=ETH_IPV6, ipv6_dst=(str(prefix.network_address), str(prefix.netmask)))

    def _actions(self, entries: Sequence[TableEntry]) -> tuple[Action, ...]:
        """Return what a switch does by the first of these entries that can be used."""
        ways: list[tuple[int, ...]] = []
        removes = False
        for entry in entries:
            if not isinstance(entry.action, SendOver):
                removes = isinstance(entry.action, RemoveId)
                break
            if entry.action.links[0] < self._first_cable:
                return self._deliver(entry.action.links[0])
            ports = tuple(self._ports[link][1] for link in entry.action.links if link in self._ports)
            if ports and ports not in ways:
                ways.append(ports)
        if not ways:
            return self._remove if removes else ()
        if len(ways) == 1 and not removes:
            return spread(self._builder, ways[0], self._ecmp_action)
        buckets = [self._bucket(ports) for ports in ways]
        if removes:
            # A bucket of a fail-over group watches something; here, whatever is up where the packet came in.
            buckets.append(Bucket(self._remove, watch_group=self._any_of(self._own_ports)))
        return (ToGroup(self._builder.group("failover", buckets)),)

    def _bucket(self, ports: tuple[int, ...]) -> Bucket:
        if len(ports) == 1:
            return port_bucket(ports[0])
        group = self._any_of(ports)
        return Bucket((ToGroup(group),), watch_group=group)

    def _any_of(self, ports: tuple[int, ...]) -> int:
        return self._builder.group("select", map(port_bucket, ports))

    def _deliver(self, link: int) -> tuple[Action, ...]:
        if link not in self._ports:
            return ()
        host = self._ids.fabric.hosts[link - self._ids.fabric.n_hosts]
        return (SetEthDst(host.mac), *output(self._ports[link][1]))
