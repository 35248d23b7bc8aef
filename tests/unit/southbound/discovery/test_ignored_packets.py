"""Ignored packets are counted and reported by port, with rate-limited log lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.model.network_state import PortId
from controller.southbound.discovery.ignored_packets import (
    LOG_SECONDS,
    MOST_NOTICES,
    MOST_PORTS,
    TELL_SECONDS,
    IgnoredKind,
    IgnoredPackets,
)

AT, SENDER = PortId(1, 5), PortId(2, 6)


def made() -> IgnoredPackets:
    return IgnoredPackets(lambda dpid: f"leaf{dpid}", {AT: "h5"}.get)


@given(st.lists(st.tuples(st.sampled_from(list(IgnoredKind)), st.integers(1, 300), st.floats(0, 30))))
def test_any_flood_is_counted_has_a_line_a_port_at_most_and_bounded_notices(
    seen: list[tuple[IgnoredKind, int, float]],
) -> None:
    ignored, lines, now = made(), dict[int, int](), 0.0
    for kind, port, later in sorted(seen, key=lambda each: each[2]):
        now = later
        line = ignored.saw(kind, PortId(1, port), now, SENDER)
        assert line is None or kind is not IgnoredKind.FOREIGN
        lines[port] = lines.get(port, 0) + (line is not None)
    assert ignored.counts.total() == len(seen)
    assert max(lines.values(), default=0) <= 1
    assert len(ignored.notices(now)) <= MOST_NOTICES + 1
    assert ignored.notices(now + TELL_SECONDS + 1) == []


def test_a_notice_names_switch_port_and_host() -> None:
    ignored = made()
    text = "forged or foreign discovery packets at leaf1 port 5, which belongs to h5: ignored"
    assert ignored.saw(IgnoredKind.FORGED, AT, 0.0) == text
    assert ignored.saw(IgnoredKind.FORGED, AT, LOG_SECONDS - 1) is None
    assert ignored.notices(LOG_SECONDS) == [text]
    assert ignored.saw(IgnoredKind.FORGED, AT, LOG_SECONDS + 1) == text
    repeated = ignored.saw(IgnoredKind.STALE, SENDER, 0.0, AT)
    assert repeated == "discovery packets of leaf1 port 5 are repeated at leaf2 port 6: ignored"
    relayed = ignored.saw(IgnoredKind.DENIED, PortId(3, 1), 0.0, SENDER)
    assert relayed == (
        "discovery packets of leaf2 port 6 arrive at leaf3 port 1, which is not a link between switches: ignored"
    )


def test_lldp_of_others_is_counted_and_not_reported() -> None:
    ignored = made()
    assert ignored.saw(IgnoredKind.FOREIGN, AT, 0.0) is None
    assert ignored.notices(0.0) == []
    assert ignored.counts[IgnoredKind.FOREIGN] == 1


def test_only_so_many_ports_are_remembered() -> None:
    ignored = made()
    said = [ignored.saw(IgnoredKind.FORGED, PortId(1, port), 0.0) for port in range(2 * MOST_PORTS)]
    assert sum(line is not None for line in said) == MOST_PORTS
