"""Open vSwitch's tables as text and as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.tables import FlowEntry, GroupEntry, ReadPortCounters, parse_flows, parse_groups, parse_ports

HEADER = "OFPST_FLOW reply (OF1.3) (xid=0x2):\n"
numbers = st.integers(0, 2**64 - 1)
matches = st.sampled_from(
    ["", "ip,nw_dst=10.0.2.0/24", "mpls,in_port=3,mpls_label=17,mpls_bos=0", "arp,arp_tpa=0.0.0.0"]
)
actions = st.sampled_from(["drop", "output:4", "bundle(symmetric_l3l4+udp,0,hrw,ofport,members:5,6)", "group:7", ""])
extras = st.sampled_from(["", "idle_timeout=10, ", "hard_timeout=5, idle_age=3, ", "send_flow_rem "])
priorities = st.one_of(st.just(32768), st.integers(0, 0xFFFF))
entries = st.builds(FlowEntry, numbers, st.integers(0, 254), priorities, numbers, numbers, matches, actions)


def written(entry: FlowEntry, extra: str) -> str:
    """As ``ovs-ofctl dump-flows`` writes it; it leaves out the default priority."""
    match = ([] if entry.priority == 32768 else [f"priority={entry.priority}"]) + ([entry.match] if entry.match else [])
    return (
        f" cookie={entry.cookie:#x}, duration=4.997s, table={entry.table}, n_packets={entry.packets}, "
        f"n_bytes={entry.bytes}, {extra}{','.join(match)}{' ' if match else ''}actions={entry.actions}\n"
    )


@given(st.lists(st.tuples(entries, extras)))
def test_each_rule_that_is_written_is_read_as_it_was(rows: list[tuple[FlowEntry, str]]) -> None:
    assert parse_flows(HEADER + "".join(written(*row) for row in rows)) == [entry for entry, _ in rows]


@pytest.mark.parametrize("line", ["ovs-ofctl: leaf1 is not a bridge or a socket", " cookie=0x0, table=0, actions=drop"])
def test_a_line_that_is_no_rule_is_not_passed_over(line: str) -> None:
    with pytest.raises(ValueError, match="not a flow entry"):
        parse_flows(HEADER + line)
    with pytest.raises(ValueError, match="not a group entry"):
        parse_groups(HEADER + line)


def test_groups_are_read_with_their_buckets_in_order() -> None:
    text = (
        "OFPST_GROUP_DESC reply (OF1.3) (xid=0x2):\n"
        " group_id=7,type=ff,bucket=watch_port:5,actions=output:5,bucket=watch_group:8,actions=group:8\n"
        " group_id=8,type=select,bucket=weight:2,actions=output:6\n"
        " group_id=9,type=all\n"
    )
    assert parse_groups(text) == [
        GroupEntry(7, "ff", ("watch_port:5,actions=output:5", "watch_group:8,actions=group:8")),
        GroupEntry(8, "select", ("weight:2,actions=output:6",)),
        GroupEntry(9, "all", ()),
    ]


def test_ports_are_counted_by_number_and_the_bridges_own_port_is_left_out() -> None:
    text = (
        "OFPST_PORT reply (OF1.3) (xid=0x2): 2 ports\n"
        "  port LOCAL: rx pkts=1, bytes=2, drop=3, errs=0, frame=0, over=0, crc=0\n"
        "           tx pkts=4, bytes=5, drop=6, errs=0, coll=0\n"
        "           duration=3.6s\n"
        "  port  5: rx pkts=10, bytes=20, drop=30, errs=0, frame=0, over=0, crc=0\n"
        "           tx pkts=40, bytes=50, drop=60, errs=0, coll=0\n"
        "           duration=3.6s\n"
    )
    assert parse_ports(text) == {5: ReadPortCounters(10, 20, 30, 40, 50, 60)}
