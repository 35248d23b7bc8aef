"""Flow-mods against a model that knows nothing of masks and fields: a match is the set of packets that it matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from tests.fake_switch.decode import PROTOCOL
from tests.unit.fake_switch.talk import refusal, say, switch

IPV4, ARP, UDP, TCP = 0x0800, 0x0806, 17, 6
Packets = frozenset[tuple[int, int, int, int]]
UNIVERSE = [
    *product((1, 2, 3), (IPV4,), (UDP, TCP), (100, *range(49152, 49160))),
    *product((1, 2, 3), (ARP,), (0,), (0,)),
]
"""(in_port, eth_type, ip_proto, UDP source port) of every packet that there is."""


@dataclass(frozen=True)
class Drawn:
    """A match, and the packets that it matches."""

    fields: dict[str, Any]
    packets: Packets


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    fields: dict[str, Any] = {}
    packets = UNIVERSE
    if draw(st.booleans()):
        fields["in_port"] = draw(st.sampled_from((1, 2, 3)))
        packets = [p for p in packets if p[0] == fields["in_port"]]
    if draw(st.booleans()):
        fields["eth_type"] = draw(st.sampled_from((IPV4, ARP)))
        packets = [p for p in packets if p[1] == fields["eth_type"]]
    if fields.get("eth_type") == IPV4 and draw(st.booleans()):
        fields["ip_proto"] = draw(st.sampled_from((UDP, TCP)))
        packets = [p for p in packets if p[2] == fields["ip_proto"]]
    if fields.get("ip_proto") == UDP and draw(st.booleans()):
        value, mask = draw(st.integers(49152, 49159)), draw(st.integers(0xFFF8, 0xFFFF))
        fields["udp_src"] = (value, mask)
        packets = [p for p in packets if (p[3] ^ value) & mask == 0]
    return Drawn(fields, frozenset(packets))


@dataclass(frozen=True)
class Change:
    """A flow-mod, as far as the model goes."""

    command: int
    table: int
    priority: int
    match: Drawn
    port: int
    cookie: int
    cookie_mask: int
    out_port: int
    overlap: bool


changes = st.builds(
    Change,
    command=st.sampled_from([0, 0, 0, 0, 1, 2, 3, 4]),
    table=st.sampled_from((0, 1)),
    priority=st.sampled_from((1, 2)),
    match=drawn(),
    port=st.sampled_from((1, 2)),
    cookie=st.sampled_from((0xFA, 0xFB, 0x10)),
    cookie_mask=st.sampled_from((0, 0xF0, 0xFF)),
    out_port=st.sampled_from((ofp.OFPP_ANY, ofp.OFPP_ANY, 1)),
    overlap=st.booleans(),
)

Model = dict[tuple[int, int, Packets], tuple[int, int]]
"""(table, priority, packets) -> (cookie, port out)."""


def carry_out(model: Model, change: Change, limit: int) -> str | None:
    """What the standard says of a flow-mod (OpenFlow 1.3.5, section 6.4); why it is refused."""
    key = (change.table, change.priority, change.match.packets)
    if change.command == ofp.OFPFC_ADD:
        peers = [packets for table, priority, packets in model if (table, priority) == key[:2] and packets != key[2]]
        if change.overlap and any(packets & key[2] for packets in peers):
            return "overlap"
        if key not in model and sum(table == change.table for table, _, _ in model) >= limit:
            return "full"
        model[key] = change.cookie, change.port
        return None
    strict = change.command in (ofp.OFPFC_MODIFY_STRICT, ofp.OFPFC_DELETE_STRICT)
    deletes = change.command in (ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)
    for each in [each for each in model if each[0] == change.table]:
        cookie, port = model[each]
        meant = each == key if strict else each[2] <= key[2]
        if not meant or (cookie ^ change.cookie) & change.cookie_mask:
            continue
        if not deletes:
            model[each] = cookie, change.port
        elif change.out_port in (ofp.OFPP_ANY, port):
            del model[each]
    return None


def flow_mod(change: Change) -> Any:
    does = [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [parser.OFPActionOutput(change.port, 0)])]
    deletes = change.command in (ofp.OFPFC_DELETE, ofp.OFPFC_DELETE_STRICT)
    return parser.OFPFlowMod(
        PROTOCOL,
        command=change.command,
        table_id=change.table,
        priority=change.priority,
        cookie=change.cookie,
        cookie_mask=change.cookie_mask,
        flags=ofp.OFPFF_CHECK_OVERLAP * change.overlap,
        match=parser.OFPMatch(**change.match.fields),
        out_port=change.out_port if deletes else ofp.OFPP_ANY,
        out_group=ofp.OFPG_ANY,
        instructions=[] if deletes else does,
    )


REASONS = {
    "overlap": (ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_OVERLAP),
    "full": (ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_TABLE_FULL),
    None: None,
}


@given(sequence=st.lists(changes, max_size=30), limit=st.integers(1, 8), part_bytes=st.integers(1, 1000))
def test_any_sequence_of_flow_mods_leaves_what_a_plain_model_says(
    sequence: list[Change], limit: int, part_bytes: int
) -> None:
    tested = switch(table_limit=limit, part_bytes=part_bytes)
    model: Model = {}
    shown: dict[Packets, Any] = {}
    for change in sequence:
        assert refusal(say(tested, flow_mod(change))) == REASONS[carry_out(model, change, limit)]
        match = parser.OFPMatch(**change.match.fields)
        shown[change.match.packets] = normal(match.items())
    held = {
        (entry.table_id, entry.priority, normal(entry.match.items())): (
            entry.cookie,
            entry.instructions[0].actions[0].port,
        )
        for part in say(tested, parser.OFPFlowStatsRequest(PROTOCOL))
        for entry in part.body
    }
    assert held == {(table, priority, shown[packets]): does for (table, priority, packets), does in model.items()}
    counted = [stats for part in say(tested, parser.OFPTableStatsRequest(PROTOCOL, 0)) for stats in part.body]
    assert {stats.table_id: stats.active_count for stats in counted if stats.active_count} == Counter(
        table for table, _, _ in model
    )


def normal(fields: Iterable[tuple[str, Any]]) -> frozenset[tuple[str, Any]]:
    """A match without bits that mean nothing, and without masks that are all ones."""
    return frozenset((name, _plain(value) if name == "udp_src" else value) for name, value in fields)


def _plain(port: int | tuple[int, int]) -> tuple[int, int]:
    value, mask = port if isinstance(port, tuple) else (port, 0xFFFF)
    return value & mask, mask
