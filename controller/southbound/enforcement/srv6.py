"""``srv6`` enforcement: hosts write the path of each packet into its destination address, and routers read it.

The tables of routers are static, so no plan writes to a switch, and packets of two plans never disturb each other: a
carrier names its whole path. Hosts tell flows apart by their ports, as ``per_flow`` does at leaves. A flow whose port
is unknown is all that one host sends another; so its path is that of packets to this host which belong to no flow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.traffic import ANY_PORT
from controller.southbound.enforcement.base import Enforcement, OptionValues, RuleInputs
from controller.southbound.enforcement.flow_encoding import kept_ports
from controller.southbound.enforcement.host_plans import HostPlans
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import RuleSet
from controller.southbound.srv6.host_document import LOCAL, HostContents, HostFlow
from controller.southbound.srv6.router_configuration import DEFAULT_CABLES, CableAddresses
from controller.southbound.srv6.segment_ids import DEFAULT_BLOCK, SegmentIds, network

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


def check(fabric: Fabric, options: OptionValues) -> None:
    """See whether hosts can write paths on a fabric.

    Raises:
        InputError: a switch speaks OpenFlow; ports of a NIC share an address; or the ids or addresses do not suffice.
    """
    spoken = next((switch.name for switch in fabric.switches if switch.kind == "openflow"), None)
    if spoken is not None:
        raise InputError(
            "speaks OpenFlow, and this enforcement needs routers that read SRv6 segments (kind: router)",
            field="switches",
            value=spoken,
        )
    if fabric.planes.bonds:
        raise InputError("ports that share an address cannot be told apart by this enforcement", field="hosts")
    ids, addresses = segment_ids(fabric, options)
    ids.check()
    addresses.check()
    if addresses.network.overlaps(ids.block):
        raise InputError(f"overlaps the block {ids.block}", field=CABLES, value=str(addresses.network))


def host_plans(inputs: RuleInputs) -> HostPlans:
    """Return what hosts send over which carriers."""
    fabric, traffic, encoding = inputs.fabric, inputs.traffic, inputs.encoding
    ids, addresses = segment_ids(fabric, inputs.options)
    rows = np.flatnonzero((encoding.path >= 0) | (encoding.path == LOCAL))
    flow = encoding.flow[rows]
    src, dst = traffic.src[flow], traffic.dst[flow]
    sent: dict[int, list[HostFlow]] = defaultdict(list)
    columns = (src, dst, encoding.path[rows], encoding.udp_src[rows])
    for sender, receiver, path, port in zip(*(column.tolist() for column in columns), strict=True):
        sent[sender].append(HostFlow(receiver, path, None if port == ANY_PORT else port))

    contents = HostContents(ids, addresses, inputs.usable)

    def content(host: int) -> Mapping[str, Any]:
        return contents.of(host, sent.get(host, ()))

    return HostPlans(fabric, frozenset(np.unique(np.concatenate([src, dst])).tolist()), content)


def _no_rules(_inputs: RuleInputs) -> RuleSet:
    """Return no rules: routers have static tables."""
    return RuleSet()


def _is_no_rule(_rule: Rule) -> bool:
    """Return that no rule of a leaf makes a flow follow its path."""
    return False


ENFORCEMENT = Enforcement(
    "srv6",
    "the address that the host's agent writes, an id for each router",
    hosts="run the agent",
    encode=kept_ports,
    compile=_no_rules,
    is_planned=_is_no_rule,
    check=check,
    growth=GROWTH,
    options=(BLOCK, CABLES),
    watchable=False,
    host_plans=host_plans,
)
