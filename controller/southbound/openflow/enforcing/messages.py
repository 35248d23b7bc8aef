"""Rules and groups to OpenFlow 1.3 messages, and statistics replies back to rules and groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ryu.ofproto import nicira_ext
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.enforcement.ingress import FLOW_TABLE, IPV4, TO_ROCE, UDP_ONLY
from controller.southbound.rules.rule import (
    COOKIE_MASK,
    COOKIE_PREFIX,
    ETH_MPLS,
    Action,
    Bucket,
    Bundle,
    Group,
    Output,
    PopMpls,
    PushMpls,
    Resubmit,
    Rule,
    SetDscp,
    SetEthDst,
    SetTrafficClass,
    ShiftIds,
    ToController,
    ToGroup,
)
from controller.southbound.wire.message_check import check
from controller.southbound.wire.rule_bytes import ID_BITS, IN_PORT_OF_PACKET, IPV6_BITS

OUR_COOKIE = COOKIE_PREFIX << 48
_IPV6_DST, _IN_PORT = "ipv6_dst_nxm", "in_port_nxm"
NO_BUFFER = ofp.OFP_NO_BUFFER
FULL_MASK = 0xFFFFFFFFFFFFFFFF
SYMMETRIC_L3L4_UDP = 3
"""Open vSwitch's NX_HASH_FIELDS_SYMMETRIC_L3L4_UDP (addresses, and ports of UDP too), which Ryu has no name for."""

MOST_ENTRIES = 1_100_000
"""Of one reply: a rule for each of the flows that there may be by default, and base rules."""

KINDS = {"select": ofp.OFPGT_SELECT, "failover": ofp.OFPGT_FF}
KIND_NAMES = {number: name for name, number in KINDS.items()}


def put_rule(datapath: Any, rule: Rule, epoch: int) -> Any:
    """Build the message that adds a rule, or replaces the one with the same table, priority and match."""
    instructions = []
    if rule.meter is not None:
        instructions.append(parser.OFPInstructionMeter(rule.meter))
    if rule.actions:
        instructions.append(parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, _actions(rule.actions)))
    if rule.metadata is not None:
        instructions.append(parser.OFPInstructionWriteMetadata(rule.metadata, FULL_MASK))
    if rule.goto is not None:
        instructions.append(parser.OFPInstructionGotoTable(rule.goto))
    return parser.OFPFlowMod(
        datapath,
        cookie=OUR_COOKIE | epoch,
        table_id=rule.table,
        command=ofp.OFPFC_ADD,
        priority=rule.priority,
        buffer_id=NO_BUFFER,
        match=parser.OFPMatch(**dict(rule.match)),
        instructions=instructions,
    )


def remove_rule(datapath: Any, rule: Rule) -> Any:
    """Build the message that removes exactly this rule, if it is ours."""
    return parser.OFPFlowMod(
        datapath,
        cookie=OUR_COOKIE,
        cookie_mask=COOKIE_MASK,
        table_id=rule.table,
        command=ofp.OFPFC_DELETE_STRICT,
        priority=rule.priority,
        buffer_id=NO_BUFFER,
        out_port=ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        match=parser.OFPMatch(**dict(rule.match)),
    )


def put_group(datapath: Any, group: Group, *, replaces: bool = False) -> Any:
    """Build the message that makes a group, or (``replaces``) gives the one with its id this content."""
    buckets = [_bucket(bucket, group.kind) for bucket in group.buckets]
    command = ofp.OFPGC_MODIFY if replaces else ofp.OFPGC_ADD
    return parser.OFPGroupMod(datapath, command, KINDS[group.kind], group.id, buckets)


def remove_group(datapath: Any, group: Group) -> Any:
    """Build the message that removes a group."""
    return parser.OFPGroupMod(datapath, ofp.OFPGC_DELETE, KINDS.get(group.kind, ofp.OFPGT_ALL), group.id)


def read_rules(datapath: Any) -> Any:
    """Build the request for every rule with our cookie."""
    return parser.OFPFlowStatsRequest(
        datapath, 0, ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY, OUR_COOKIE, COOKIE_MASK, parser.OFPMatch()
    )


def read_every_rule(datapath: Any) -> Any:
    """Build the request for all rules, of any origin."""
    return parser.OFPFlowStatsRequest(datapath, 0, ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0, parser.OFPMatch())


def read_groups(datapath: Any) -> Any:
    """Build the request for all groups (OpenFlow cannot ask for a range)."""
    return parser.OFPGroupDescStatsRequest(datapath, 0)


def read_meter_features(datapath: Any) -> Any:
    """Build the request for the meters that the switch can have."""
    return parser.OFPMeterFeaturesStatsRequest(datapath, 0)


def read_meters(datapath: Any) -> Any:
    """Build the request for all meters."""
    return parser.OFPMeterConfigStatsRequest(datapath, 0, ofp.OFPM_ALL)


def count_ports(datapath: Any) -> Any:
    """Build the request for the counters of all ports."""
    return parser.OFPPortStatsRequest(datapath, 0, ofp.OFPP_ANY)


def count_flows(datapath: Any) -> Any:
    """Build the request for the counters of planned flows' rules: those of ours that match RoCE packets."""
    fields = parser.OFPMatch(**dict((IPV4, UDP_ONLY, TO_ROCE)))
    return parser.OFPFlowStatsRequest(
        datapath, 0, FLOW_TABLE, ofp.OFPP_ANY, ofp.OFPG_ANY, OUR_COOKIE, COOKIE_MASK, fields
    )


def count_groups(datapath: Any) -> Any:
    """Build the request for the counters of all groups (OpenFlow cannot ask for a range)."""
    return parser.OFPGroupStatsRequest(datapath, 0, ofp.OFPG_ALL)


def count_rules(datapath: Any) -> Any:
    """Build the request for the number of rules with our cookie."""
    return parser.OFPAggregateStatsRequest(
        datapath, 0, ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY, OUR_COOKIE, COOKIE_MASK, parser.OFPMatch()
    )


def count_tables(datapath: Any) -> Any:
    """Build the request for the number of rules in each table, of any origin."""
    return parser.OFPTableStatsRequest(datapath, 0)


def ask_role(datapath: Any) -> Any:
    """Build the request for this controller's role at a switch; it changes nothing."""
    return parser.OFPRoleRequest(datapath, ofp.OFPCR_ROLE_NOCHANGE, 0)


def take_role(datapath: Any, generation: int, *, master: bool) -> Any:
    """Build the request to be master or slave at a switch, which refuses it if it knows a later generation."""
    role = ofp.OFPCR_ROLE_MASTER if master else ofp.OFPCR_ROLE_SLAVE
    return parser.OFPRoleRequest(datapath, role, generation)


def barrier(datapath: Any) -> Any:
    """Build a barrier request."""
    return parser.OFPBarrierRequest(datapath)


def packet_out(datapath: Any, port: int, data: bytes) -> Any:
    """Send a packet out of a port."""
    return parser.OFPPacketOut(datapath, NO_BUFFER, ofp.OFPP_CONTROLLER, [parser.OFPActionOutput(port)], data)


def packet_in_by(datapath: Any, port: int, data: bytes) -> Any:
    """Have a switch forward a packet by its rules, as if it had come in by a port."""
    actions = [parser.OFPActionOutput(ofp.OFPP_TABLE)]
    return parser.OFPPacketOut(datapath, NO_BUFFER, port, actions, data)


def rule_from(entry: Any) -> Rule:
    """Return a flow statistics entry as a rule. One of ours in an unknown form comes back without actions."""
    actions: tuple[Action, ...] = ()
    goto = metadata = meter = None
    for instruction in entry.instructions:
        if isinstance(instruction, parser.OFPInstructionActions):
            actions = _actions_from(instruction.actions)
        elif isinstance(instruction, parser.OFPInstructionWriteMetadata):
            metadata = instruction.metadata
        elif isinstance(instruction, parser.OFPInstructionGotoTable):
            goto = instruction.table_id
        elif isinstance(instruction, parser.OFPInstructionMeter):
            meter = instruction.meter_id
    return Rule(entry.table_id, entry.priority, tuple(sorted(entry.match.items())), actions, goto, metadata, meter)


def every_group(entries: Iterable[Any]) -> dict[int, Group]:
    """Return group descriptions as groups, of any origin, by id."""
    groups = {}
    for entry in entries:
        buckets = tuple(_bucket_from(bucket) for bucket in entry.buckets)
        groups[entry.group_id] = Group(entry.group_id, KIND_NAMES.get(entry.type, str(entry.type)), buckets)
    return groups


def flow_entries(parts: Iterable[bytes]) -> Iterator[Any]:
    """Yield the entries of a reply with rules that was taken as bytes (``ask_raw``); may run off the event loop.

    Raises:
        ValueError: it is no such reply, or has more than ``MOST_ENTRIES`` entries.
    """
    return _entries(parts, parser.OFPFlowStats)


def group_entries(parts: Iterable[bytes]) -> Iterator[Any]:
    """Yield the entries of a reply with group descriptions, like ``flow_entries``."""
    return _entries(parts, parser.OFPGroupDescStats)


def _entries(parts: Iterable[bytes], kind: Any) -> Iterator[Any]:
    count = 0
    for part in parts:
        check(part)
        if part[8:10] != (ofp.OFPMP_FLOW if kind is parser.OFPFlowStats else ofp.OFPMP_GROUP_DESC).to_bytes(2, "big"):
            raise ValueError("a statistics reply has another type than the request")
        at = ofp.OFP_MULTIPART_REPLY_SIZE
        while at < len(part):
            count += 1
            if count > MOST_ENTRIES:
                raise ValueError(f"a statistics reply has more than {MOST_ENTRIES} entries")
            try:
                entry = kind.parser(part, at)
            except Exception as error:  # Ryu's parsers raise whatever they stumble over
                raise ValueError(f"an entry of a statistics reply cannot be read: {error}") from None
            yield entry
            at += entry.length


def _actions(actions: Iterable[Action]) -> list[Any]:
    sent = []
    for action in actions:
        if isinstance(action, PushMpls):
            sent += [parser.OFPActionPushMpls(ETH_MPLS), parser.OFPActionSetField(mpls_label=action.label)]
        elif isinstance(action, ShiftIds):
            moved = IPV6_BITS - action.block_bits - ID_BITS
            sent += [
                parser.NXActionRegMove(_IPV6_DST, _IPV6_DST, n_bits=moved, src_ofs=0, dst_ofs=ID_BITS),
                *(parser.NXActionRegLoad(ofs_nbits=ID_BITS - 1, dst=field, value=0) for field in (_IPV6_DST, _IN_PORT)),
            ]
        else:
            sent.append(_action(action))
    return sent


def _action(action: Action) -> Any:
    if isinstance(action, Output):
        return parser.OFPActionOutput(action.port)
    if isinstance(action, ToGroup):
        return parser.OFPActionGroup(action.group)
    if isinstance(action, ToController):
        return parser.OFPActionOutput(ofp.OFPP_CONTROLLER, action.max_len)
    if isinstance(action, PopMpls):
        return parser.OFPActionPopMpls(action.eth_type)
    if isinstance(action, SetEthDst):
        return parser.OFPActionSetField(eth_dst=action.mac)
    if isinstance(action, Resubmit):
        return parser.NXActionResubmitTable(in_port=IN_PORT_OF_PACKET, table_id=action.table)
    if isinstance(action, SetDscp):
        return parser.OFPActionSetField(ip_dscp=action.code_point)
    if isinstance(action, SetTrafficClass):
        return parser.OFPActionSetField(mpls_tc=action.number)
    assert isinstance(action, Bundle)
    return parser.NXActionBundle(
        algorithm=nicira_ext.NX_BD_ALG_HRW,
        fields=SYMMETRIC_L3L4_UDP,
        basis=0,
        slave_type=nicira_ext.NXM_OF_IN_PORT,
        n_slaves=len(action.ports),
        ofs_nbits=0,
        dst=0,
        slaves=list(action.ports),
    )


def _actions_from(actions: Iterable[Any]) -> tuple[Any, ...]:
    """Return actions as ours; an MPLS header with the label that is set on it next, and those of ``ShiftIds``."""
    decoded: list[Any] = []
    pushed = False
    for action in actions:
        label = action.value if isinstance(action, parser.OFPActionSetField) and action.key == "mpls_label" else None
        if pushed and label is not None:
            decoded[-1] = PushMpls(label)
        else:
            decoded.append(_action_from(action))
        pushed = isinstance(action, parser.OFPActionPushMpls) and action.ethertype == ETH_MPLS
        if decoded[-2:] == _LOADS and isinstance(decoded[-3], _Moved):
            decoded[-3:] = [ShiftIds(IPV6_BITS - ID_BITS - decoded[-3].bits)]
    return tuple(repr(each) if isinstance(each, _Moved | _Loaded) else each for each in decoded)


class _Moved(NamedTuple):
    """IPv6's destination, this many bits of it, was moved up by the bits of an id."""

    bits: int


class _Loaded(NamedTuple):
    """Zeros were loaded into the lowest bits of a field, as many as an id has."""

    field: str


_LOADS = [_Loaded(_IPV6_DST), _Loaded(_IN_PORT)]


def _action_from(action: Any) -> Any:
    if isinstance(action, parser.OFPActionOutput):
        return ToController(action.max_len) if action.port == ofp.OFPP_CONTROLLER else Output(action.port)
    if isinstance(action, parser.OFPActionGroup):
        return ToGroup(action.group_id)
    if isinstance(action, parser.OFPActionPopMpls):
        return PopMpls(action.ethertype)
    if isinstance(action, parser.OFPActionSetField) and action.key == "ip_dscp":
        return SetDscp(action.value)
    if isinstance(action, parser.OFPActionSetField) and action.key == "mpls_tc":
        return SetTrafficClass(action.value)
    if isinstance(action, parser.OFPActionSetField) and action.key == "eth_dst":
        return SetEthDst(action.value)
    if isinstance(action, parser.NXActionRegMove) and _is_shift(action):
        return _Moved(action.n_bits)
    if isinstance(action, parser.NXActionRegLoad) and (action.ofs_nbits, action.value) == (ID_BITS - 1, 0):
        return _Loaded(action.dst)
    if isinstance(action, parser.NXActionResubmitTable) and action.in_port == IN_PORT_OF_PACKET:
        return Resubmit(action.table_id)
    if isinstance(action, parser.NXActionBundle):
        return Bundle(tuple(action.slaves))
    # Another program wrote this under our cookie: it equals no rule of ours, so it will be replaced.
    return repr(action)


def _is_shift(action: Any) -> bool:
    fields = (action.src_field, action.dst_field, action.src_ofs, action.dst_ofs)
    return fields == (_IPV6_DST, _IPV6_DST, 0, ID_BITS) and action.n_bits % ID_BITS == 0


def _bucket(bucket: Bucket, kind: str) -> Any:
    return parser.OFPBucket(
        weight=1 if kind == "select" else 0,
        watch_port=ofp.OFPP_ANY if bucket.watch_port is None else bucket.watch_port,
        watch_group=ofp.OFPG_ANY if bucket.watch_group is None else bucket.watch_group,
        actions=_actions(bucket.actions),
    )


def _bucket_from(bucket: Any) -> Bucket:
    return Bucket(
        _actions_from(bucket.actions),
        None if bucket.watch_port == ofp.OFPP_ANY else bucket.watch_port,
        None if bucket.watch_group == ofp.OFPG_ANY else bucket.watch_group,
    )
