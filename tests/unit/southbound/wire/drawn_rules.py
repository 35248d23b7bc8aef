"""Rules with every match and action, drawn."""

from __future__ import annotations

from hypothesis import strategies as st

from controller.southbound.rules.rule import (
    Action,
    Bundle,
    MatchValue,
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
    match,
)

PORTS = st.integers(1, 0xFFFF)
ADDRESSES = st.ip_addresses(v=4).map(str)
NUMBERS = st.integers(0, 0xFFFF)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Output, st.integers(1, 0xFFFFFF00)),
    st.builds(ToGroup, st.integers(0, 0xFFFFFF00)),
    st.builds(Bundle, st.lists(PORTS, min_size=1, max_size=9).map(tuple)),
    st.builds(ToController, NUMBERS),
    st.builds(PushMpls, st.integers(0, (1 << 20) - 1)),
    st.builds(PopMpls, NUMBERS),
    st.builds(SetDscp, st.integers(0, 63)),
    st.builds(SetTrafficClass, st.integers(0, 7)),
    st.builds(ShiftIds, st.sampled_from([16, 32, 48])),
    st.builds(Resubmit, st.integers(0, 253)),
    st.builds(SetEthDst, st.just("02:00:00:00:00:07")),
)


FIELDS: st.SearchStrategy[dict[str, MatchValue]] = st.fixed_dictionaries(
    {},
    optional={
        "in_port": PORTS,
        "metadata": st.integers(0, 2**64 - 1),
        "eth_dst": st.just("01:80:c2:00:00:0e"),
        "eth_type": NUMBERS,
        "ip_proto": st.integers(0, 255),
        "ipv4_src": ADDRESSES,
        "ipv4_dst": st.one_of(ADDRESSES, st.just(("10.0.1.0", "255.255.255.0"))),
        "ipv6_dst": st.one_of(st.ip_addresses(v=6).map(str), st.just(("fcbb:bb00::", "ffff:ffff::"))),
        "udp_src": st.one_of(NUMBERS, st.just((3, 0x3F))),
        "udp_dst": NUMBERS,
        "arp_tpa": st.one_of(ADDRESSES, st.just(("10.0.0.0", "255.0.0.0"))),
        "mpls_label": st.integers(0, (1 << 20) - 1),
        "mpls_bos": st.integers(0, 1),
    },
)
MATCHES = FIELDS.map(lambda fields: match(**fields))
RULES = st.builds(
    Rule,
    st.integers(0, 253),
    NUMBERS,
    MATCHES,
    st.lists(ACTIONS, max_size=4).map(tuple),
    st.one_of(st.none(), st.integers(1, 253)),
    st.one_of(st.none(), st.integers(0, 2**64 - 1)),
    st.one_of(st.none(), st.integers(1, 2**32 - 1)),
)
