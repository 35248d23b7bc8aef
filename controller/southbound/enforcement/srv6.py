"""``srv6`` enforcement: hosts write the path of each packet into its destination address, and switches read it.

The tables of switches are static, those of routers as well as the rules of OpenFlow switches (``segment_rules``), so no
plan writes to a switch, and packets of two plans never disturb each other: a carrier names its whole path. Hosts tell
flows apart by their ports, as ``per_flow`` does at leaves. A flow whose port is unknown is all that one host sends
another; so its path is that of packets to this host which belong to no flow. Of other protocols than RoCEv2 hosts know
no flows by one port, so that all packets of two hosts have one path there. Packets of a flow whose receiver takes them
in any order are spread over a set of paths, by weights.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

import numpy as np
import orjson

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.ip_versions import check_ipv4
from controller.model.paces import NOT_PACED
from controller.model.packets.flow_ports import flow_ports, is_roce, states_port, udp_source
from controller.model.traffic import Traffic, key_parts, unit_key
from controller.southbound.enforcement.base import Enforcement, OptionValues, RuleInputs, Segments
from controller.southbound.enforcement.flow_encoding import FlowEncoding, host_key, kept_ports
from controller.southbound.enforcement.host_plans import HostContent, HostPlans, not_compared
from controller.southbound.enforcement.segment_rules import add_segment_rules, leads_to_segments
from controller.southbound.forwarding.base import rules_of
from controller.southbound.rules.rule_set import RuleSet
from controller.southbound.srv6.carrier_cables import CarrierCables
from controller.southbound.srv6.carriers import path_ids, path_nodes
from controller.southbound.srv6.host_document import LOCAL, HostContents, HostFlow, WeightedPath
from controller.southbound.srv6.host_table import DIGEST_LENGTH
from controller.southbound.srv6.router_configuration import DEFAULT_CABLES, CableAddresses
from controller.southbound.srv6.segment_ids import DEFAULT_BLOCK, SegmentIds, network

NAME = "srv6"

BLOCK, CABLES = "srv6_block", "srv6_cables"
"""The options: as ``--block`` and ``--cables`` of ``fairspine export``, by which routers were configured."""

GROWTH = 40
"""Bytes of an IPv6 header."""


def segment_ids(fabric: Fabric, options: OptionValues) -> tuple[SegmentIds, CableAddresses]:
    """Return the ids of a fabric and the addresses of its cables.

    Raises:
        InputError: an option cannot be used.
    """
    block = network(BLOCK, str(options.get(BLOCK, DEFAULT_BLOCK)))
    cables = network(CABLES, str(options.get(CABLES, DEFAULT_CABLES)))
    return SegmentIds.of(fabric, block), CableAddresses(fabric, cables)


def segments(fabric: Fabric, options: OptionValues) -> Segments:
    """Return the carriers of paths, and which node consumes each of their ids."""
    ids, _ = segment_ids(fabric, options)

    def of_path(src: int, dst: int, path: int) -> dict[str, Any]:
        numbers, nodes = path_ids(ids, src, dst, path), path_nodes(fabric, src, dst, path)
        return {
            "carrier": str(ids.address(numbers)),
            "ids": [{"id": f"{number:04x}", "node": node} for number, node in zip(numbers, nodes, strict=True)],
        }

    return of_path


def check(fabric: Fabric, options: OptionValues) -> None:
    """See whether hosts can write paths on a fabric.

    Raises:
        InputError: some switches are routers and others are not; ports of a NIC share an address; the ids or addresses
            do not suffice; a host has one of their addresses, or an IPv6 address below an OpenFlow switch.
    """
    kinds = {switch.kind: switch.name for switch in reversed(fabric.switches)}
    if len(kinds) > 1:
        raise InputError(
            f"is a router, and {kinds['openflow']} speaks OpenFlow: this enforcement needs switches of one kind",
            field="switches",
            value=kinds["router"],
        )
    if not fabric.routers:
        check_ipv4(fabric, f"{NAME} enforcement on OpenFlow switches")
    if fabric.planes.bonds:
        raise InputError("ports that share an address cannot be told apart by this enforcement", field="hosts")
    ids, addresses = segment_ids(fabric, options)
    ids.check()
    addresses.check()
    for number in fabric.ipv6_hosts.tolist():
        ip = IPv6Address(fabric.hosts[number].ip)
        taken = next((name for name, each in ((BLOCK, ids.block), (CABLES, addresses.network)) if ip in each), None)
        if taken is not None:
            raise InputError(f"is in the network of the option {taken}", field=f"hosts[{number}].ip", value=str(ip))
    if addresses.network.overlaps(ids.block):
        raise InputError(f"overlaps the block {ids.block}", field=CABLES, value=str(addresses.network))


def compile_static(inputs: RuleInputs) -> RuleSet:
    """Return the base rules and those of segments of OpenFlow switches; none of them depends on a flow."""
    if inputs.fabric.routers:
        return RuleSet()
    ids, _ = segment_ids(inputs.fabric, inputs.options)
    asked = (inputs.fabric, inputs.usable, ids.block, inputs.ecmp_action, inputs.learn)
    # Read and written as a whole, so that each thread sees both of one compilation.
    newest = _kept.newest
    if newest is not None and newest[0] == asked:
        return newest[1]
    builders = inputs.builders()
    add_segment_rules(ids, builders, inputs.ecmp_action)
    rules = rules_of(builders)
    _kept.newest = asked, rules
    return rules


class _Kept:
    """The newest rules: those of nearly all plans are the same."""

    newest: tuple[tuple[object, ...], RuleSet] | None = None


_kept = _Kept()


def host_plans(inputs: RuleInputs) -> HostPlans:
    """Return what hosts send over which carriers.

    Where switches speak OpenFlow, packets to hosts to which no planned flow leads have no carrier: switches spread
    these by their 5-tuple, which they do not see in a carrier.
    """
    fabric, traffic, encoding = inputs.fabric, inputs.traffic, inputs.encoding
    ids, addresses = segment_ids(fabric, inputs.options)
    rows = np.flatnonzero((encoding.path >= 0) | (encoding.path == LOCAL))
    flow = encoding.flow[rows]
    src, dst = traffic.src[flow], traffic.dst[flow]
    sent: dict[int, list[HostFlow]] = defaultdict(list)
    last, spread = -1, traffic.spreadable[flow] & (encoding.share[rows] < 1)
    priority = traffic.priority[traffic.collective[flow]]
    columns = (
        src,
        dst,
        encoding.path[rows],
        encoding.udp_src[rows],
        rows,
        flow,
        spread,
        encoding.share[rows],
        priority,
    )
    for sender, receiver, path, port, row, of, in_set, share, of_class in zip(
        *(each.tolist() for each in columns), strict=True
    ):
        pace = NOT_PACED if inputs.paces is None else inputs.paces.of_row(row)
        paths = (WeightedPath(path, share),) if in_set else ()
        own = HostFlow(receiver, path, udp_source(port), pace, paths, of_class)
        if in_set and of == last:
            own = sent[sender].pop().with_path(own)
        sent[sender].append(own)
        last = of

    contents = HostContents(ids, addresses, inputs.usable)
    content = _Content(contents, sent) if fabric.routers else _FewDestinations(contents, sent)
    taking_part = frozenset(np.unique(np.concatenate([src, dst])).tolist())
    return HostPlans(fabric, taking_part, content, cables=CarrierCables(ids, addresses))


@dataclass(frozen=True)
class _Content:
    """A ``HostContent``: what hosts send in a plan."""

    contents: HostContents
    sent: Mapping[int, Sequence[HostFlow]]

    def __call__(self, host: int, known: str = "", *, by_table: bool = False) -> Mapping[str, Any]:
        return self.contents.of(host, self.sent.get(host, ()), known, by_table=by_table)

    def table(self, host: int) -> bytes:
        return self.contents.table(host).document

    def unchanged(self, before: HostContent) -> Callable[[int], bool]:
        if not isinstance(before, _Content) or type(before) is not type(self):
            return not_compared
        if not self.contents.is_like(before.contents):
            return not_compared
        return lambda host: self.sent.get(host, ()) == before.sent.get(host, ())


@dataclass(frozen=True)
class _FewDestinations(_Content):
    """The same, in which only hosts to which planned flows lead have carriers; by rows, since there are few."""

    def __call__(self, host: int, known: str = "", *, by_table: bool = False) -> Mapping[str, Any]:
        flows, fabric = self.sent.get(host, ()), self.contents.fabric
        content = self.contents.of(host, flows)
        to = {fabric.hosts[flow.dst].ip for flow in flows}
        destinations = [row for row in content["destinations"] if row["dst"] in to]
        digest = hashlib.sha256(orjson.dumps(destinations)).hexdigest()[:DIGEST_LENGTH]
        left = None if digest == known else destinations
        return {**content, "destinations": left, "destinations_digest": digest}


def encode(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> FlowEncoding:
    """Return the encoding of ``kept_ports``, for flows that agents tell apart; a set of paths has one port.

    Raises:
        InputError: a flow that is not RoCEv2's states a port; or two hosts have flows of two protocols without ports.
    """
    key, roce = host_key(fabric, traffic), is_roce(traffic.udp_src)
    stated = np.flatnonzero(~roce & states_port(traffic.udp_src))
    if len(stated):
        protocol = flow_ports(int(traffic.udp_src[stated[0]])).protocol
        reason = f"states a port of {protocol}, by which agents of {NAME} enforcement tell no flows apart"
        raise InputError(reason, field=traffic.flow_id(int(stated[0])))
    if not roce.all():
        whole = np.flatnonzero(~states_port(traffic.udp_src))
        src, dst, _ = key_parts(key[whole])
        pair = unit_key(src, dst, np.zeros_like(src))
        order = np.argsort(pair, kind="stable")
        mixed = np.flatnonzero((np.diff(pair[order]) == 0) & (np.diff(traffic.udp_src[whole][order]) != 0))
        if len(mixed):
            one, other = (int(whole[order[mixed[0] + i]]) for i in (0, 1))
            protocols = " and ".join(flow_ports(int(traffic.udp_src[flow])).protocol for flow in (one, other))
            reason = (
                f"{traffic.flow_id(other)} is of the same hosts: {NAME} enforcement has one path for their {protocols}"
            )
            raise InputError(reason, field=traffic.flow_id(one))
    return kept_ports(fabric, traffic, assignment, spread=traffic.spreadable)


ENFORCEMENT = Enforcement(
    NAME,
    "the address that the host's agent writes, an id for each switch",
    hosts="run the agent",
    encode=encode,
    compile=compile_static,
    is_planned=leads_to_segments,
    check=check,
    segments=segments,
    growth=GROWTH,
    options=(BLOCK, CABLES),
    watchable=False,
    carries_ipv6=True,
    spreads=True,
    host_plans=host_plans,
)
