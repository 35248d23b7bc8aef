"""Random flow-mods and group-mods (Hypothesis), good and bad, in the vocabulary of ``southbound/rules/rule_set.py``."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from ryu.ofproto import nicira_ext
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.rules.rule import COOKIE_MASK, COOKIE_PREFIX, GROUP_BASE
from tests.fake_switch.decode import PROTOCOL

COOKIES = (COOKIE_PREFIX << 48 | 1, COOKIE_PREFIX << 48 | 2, 0x77)
COOKIE_MASKS = (0, COOKIE_MASK, 0xFFFFFFFFFFFFFFFF)
PRIORITIES = (0, 7, 900)
TABLES = (0, 1)
PORTS = (1, 2)
GROUPS = (5, GROUP_BASE | 1, GROUP_BASE | 2, GROUP_BASE | 3)
IPV4, ARP, MPLS = 0x0800, 0x0806, 0x8847
ADDRESSES = ("10.0.1.1", "10.0.1.2", ("10.0.1.0", "255.255.255.0"), ("10.0.1.2", "255.255.255.254"))

in_port = st.fixed_dictionaries({}, optional={"in_port": st.sampled_from(PORTS)})
ipv4 = st.fixed_dictionaries({"eth_type": st.just(IPV4)}, optional={"ipv4_dst": st.sampled_from(ADDRESSES)})
udp = st.fixed_dictionaries(
    {"eth_type": st.just(IPV4), "ip_proto": st.just(17)},
    optional={
        "ipv4_dst": st.sampled_from(ADDRESSES),
        "udp_src": st.sampled_from([49152, 49153, (49152, 0xFFF8), (1, 1), (49153, 0xFFFF)]),
        "udp_dst": st.just(ROCE_PORT),
    },
)
arp = st.fixed_dictionaries({"eth_type": st.just(ARP)}, optional={"arp_tpa": st.sampled_from(ADDRESSES)})
mpls = st.fixed_dictionaries(
    {"eth_type": st.just(MPLS)},
    optional={"mpls_label": st.sampled_from([16000, 16001]), "mpls_bos": st.sampled_from([0, 1])},
)
metadata = st.fixed_dictionaries({"metadata": st.sampled_from([0, 1, (1, 3)])})
FAULTS = ("match", "action", "goto")
"""What may be wrong with a flow-mod; one thing at a time, since which one a switch complains of is its own affair."""

without_prerequisite: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"udp_src": 49152}, {"ipv4_dst": "10.0.1.1"}, {"mpls_label": 16000}]
)


@st.composite
def matches(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the fields of a match."""
    kinds = [st.just({}), ipv4, udp, arp, mpls, metadata]
    chosen: dict[str, Any] = draw(in_port) | draw(st.one_of(*kinds))
    return chosen


def _bundle() -> Any:
    return parser.NXActionBundle(
        algorithm=nicira_ext.NX_BD_ALG_HRW,
        fields=3,
        basis=0,
        slave_type=nicira_ext.NXM_OF_IN_PORT,
        n_slaves=2,
        ofs_nbits=0,
        dst=0,
        slaves=list(PORTS),
    )


LAST = (
    *(parser.OFPActionOutput(port, 0) for port in PORTS),
    parser.OFPActionOutput(ofp.OFPP_CONTROLLER, 128),
    *(parser.OFPActionGroup(group) for group in GROUPS),
    _bundle(),
)
PUSH = (parser.OFPActionPushMpls(MPLS), parser.OFPActionSetField(mpls_label=16001))


@st.composite
def actions(draw: st.DrawFn, eth_type: int | None) -> list[Any]:
    """Draw actions for packets of an Ethernet type."""
    last = draw(st.sampled_from(LAST))
    first = draw(st.sampled_from(["nothing", "push", "pop", "set", "mark"]))
    if first == "mark" and eth_type == IPV4:
        return [parser.OFPActionSetField(ip_dscp=24), *PUSH, parser.OFPActionSetField(mpls_tc=2), last]
    if first == "mark" and eth_type is None:
        return [parser.OFPActionSetField(ip_dscp=24), last]
    if first == "push" and eth_type in (IPV4, MPLS):
        return [*PUSH, *(PUSH if draw(st.booleans()) else ()), last]
    if first == "pop" and eth_type == MPLS:
        return [parser.OFPActionPopMpls(IPV4), last]
    if first == "set" and eth_type == MPLS:
        return [PUSH[1], last]
    return [last]


@st.composite
def instructions(draw: st.DrawFn, eth_type: int | None) -> list[Any]:
    made: list[Any] = []
    if draw(st.booleans()):
        made.append(parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, draw(actions(eth_type))))
    if draw(st.integers(0, 3)) == 0:
        made.append(parser.OFPInstructionWriteMetadata(draw(st.integers(0, 3)), 0xFFFFFFFFFFFFFFFF))
        made.append(parser.OFPInstructionGotoTable(2))
    return made


def _faulty(fault: str | None) -> list[Any]:
    if fault == "goto":
        return [parser.OFPInstructionGotoTable(0)]
    does = [PUSH[1] if fault == "action" else parser.OFPActionOutput(PORTS[0], 0)]
    return [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, does)]


@st.composite
def flow_mods(draw: st.DrawFn, *, bad: bool = True) -> Any:
    """Mostly additions. ``bad``: some that are to be refused (others are when a group is not there)."""
    fields = draw(matches())
    # One of five: ADD, MODIFY, MODIFY_STRICT, DELETE, DELETE_STRICT.
    command = draw(st.sampled_from([ofp.OFPFC_ADD] * 5 + [1, 2, 3, 4]))
    deletes = command in (ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)
    flags = 0
    for flag in (ofp.OFPFF_SEND_FLOW_REM, ofp.OFPFF_CHECK_OVERLAP, ofp.OFPFF_RESET_COUNTS):
        flags |= flag * draw(st.booleans())
    fault = draw(st.sampled_from([None] * 9 + list(FAULTS))) if bad and command == ofp.OFPFC_ADD else None
    if fault == "match":
        fields = draw(without_prerequisite)
    if fault == "action":
        fields = {"eth_type": IPV4}
    does = [] if deletes else _faulty(fault) if fault else draw(instructions(fields.get("eth_type")))
    return parser.OFPFlowMod(
        PROTOCOL,
        cookie=draw(st.sampled_from(COOKIES)),
        cookie_mask=0 if command == ofp.OFPFC_ADD else draw(st.sampled_from(COOKIE_MASKS)),
        table_id=draw(st.sampled_from((*TABLES, ofp.OFPTT_ALL) if deletes else TABLES)),
        command=command,
        priority=draw(st.sampled_from(PRIORITIES)),
        buffer_id=ofp.OFP_NO_BUFFER,
        out_port=draw(st.sampled_from((ofp.OFPP_ANY, ofp.OFPP_ANY, *PORTS))) if deletes else ofp.OFPP_ANY,
        out_group=draw(st.sampled_from((ofp.OFPG_ANY, ofp.OFPG_ANY, *GROUPS))) if deletes else ofp.OFPG_ANY,
        flags=flags,
        match=parser.OFPMatch(**fields),
        instructions=does,
    )


@st.composite
def group_mods(draw: st.DrawFn) -> Any:
    command = draw(st.sampled_from([ofp.OFPGC_ADD] * 3 + [ofp.OFPGC_MODIFY, ofp.OFPGC_DELETE]))
    kind = draw(st.sampled_from([ofp.OFPGT_SELECT, ofp.OFPGT_FF]))
    number = draw(st.sampled_from(GROUPS))
    buckets = []
    if command != ofp.OFPGC_DELETE:
        buckets = draw(st.lists(_buckets(kind), max_size=3))
    return parser.OFPGroupMod(PROTOCOL, command, kind, number, buckets)


@st.composite
def _buckets(draw: st.DrawFn, kind: int) -> Any:
    port = draw(st.sampled_from(PORTS))
    does = [parser.OFPActionOutput(port, 0)]
    if draw(st.booleans()):
        does = [parser.OFPActionPushMpls(MPLS), parser.OFPActionSetField(mpls_label=16000), *does]
    return parser.OFPBucket(int(kind == ofp.OFPGT_SELECT), port, ofp.OFPG_ANY, does)


def sequences(*, bad: bool = True, groups: bool = True) -> st.SearchStrategy[list[Any]]:
    """Messages to be sent one after the other."""
    return st.lists(
        st.one_of(flow_mods(bad=bad), flow_mods(bad=bad), group_mods()) if groups else flow_mods(bad=bad), max_size=40
    )
