"""Rules in forms that the controller never writes: they are read within bounds, and can be removed."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import ryu_compat

ryu_compat.prepare()

from controller.southbound.openflow.enforcing.edit_messages import encoded  # noqa: E402
from controller.southbound.rollout.update import work  # noqa: E402
from controller.southbound.rules.priorities import FLOW  # noqa: E402
from controller.southbound.rules.rule import COOKIE_PREFIX  # noqa: E402
from controller.southbound.rules.rule_set import SwitchRules  # noqa: E402
from controller.southbound.wire import rule_reading  # noqa: E402
from controller.southbound.wire.rule_reading import FLOW_STATS, KEPT_BYTES, RuleReader  # noqa: E402
from controller.telemetry.decoding import FlowCounts  # noqa: E402
from tests import openflow_writer as writer  # noqa: E402


def reply(numbers: range, fields: int) -> list[bytes]:
    """Flow statistics of rules with so many match fields each, no two alike."""
    entries = []
    for number in numbers:
        oxms = b"".join(struct.pack("!HBBI", 0x8000, 22, 4, number * 1000 + n) for n in range(fields))
        match = (struct.pack("!HH", 1, 4 + len(oxms)) + oxms).ljust((4 + len(oxms) + 7) // 8 * 8, b"\0")
        entries.append(struct.pack("!HBxIIHHHH4xQQQ", 48 + len(match), 0, 0, 0, 5, 0, 0, 0, 0, 0, 0) + match)
    return list(writer.multipart(FLOW_STATS, 1, entries, part_bytes=32_000))


def test_long_entries_are_read_and_not_remembered() -> None:
    reader = RuleReader()
    fields = KEPT_BYTES // 8 + 1
    assert len(reader.rules(reply(range(100), fields))) == 100
    assert not reader._rules
    assert len(reader.rules(reply(range(100), 1))) == 100
    assert len(reader._rules) == 100


def test_fields_are_forgotten_before_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_reading, "KEPT", 50)
    reader = RuleReader()
    assert len(reader.rules(reply(range(200), 3))) == 200
    assert len(reader._fields) <= 50
    assert len(reader._rules) <= 50


@given(st.lists(st.integers(0, 4) | st.none(), max_size=30))
def test_a_reader_forgets_what_was_not_read_between_two_agings_and_reads_the_same(steps: list[int | None]) -> None:
    reader, fresh = RuleReader(), RuleReader()
    earlier: set[int] = set()
    lately: set[int] = set()
    for step in steps:
        if step is None:
            reader.age()
            earlier, lately = lately, set()
        else:
            assert reader.rules(reply(range(step, step + 1), 2)) == fresh.rules(reply(range(step, step + 1), 2))
            lately.add(step)
        assert len(reader._rules.keys() | reader._earlier.keys()) == len(earlier | lately)


def test_more_rules_than_a_switch_can_have_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_reading, "MOST_RULES", 1000)
    assert len(RuleReader().rules(reply(range(1000), 1))) == 1000
    with pytest.raises(ValueError, match="more than 1000 rules"):
        RuleReader().rules(reply(range(1001), 1))


FIELDS = st.lists(
    st.tuples(
        st.sampled_from((0x8000, 0x8000, 0x0001, 0xFFFF)), st.integers(0, 127), st.booleans(), st.binary(max_size=16)
    ),
    max_size=6,
)


def one_rule(fields: list[tuple[int, int, bool, bytes]]) -> bytes:
    """Flow statistics of one rule of ours with these match fields: class, number, mask bit, value."""
    oxms = b"".join(struct.pack("!HBB", cls, n << 1 | masked, len(value)) + value for cls, n, masked, value in fields)
    match = (struct.pack("!HH", 1, 4 + len(oxms)) + oxms).ljust((4 + len(oxms) + 7) // 8 * 8, b"\0")
    entry = struct.pack("!HBxIIHHHH4xQQQ", 48 + len(match), 0, 0, 0, FLOW, 0, 0, 0, COOKIE_PREFIX << 48, 0, 0) + match
    (part,) = writer.multipart(FLOW_STATS, 1, [entry], part_bytes=32_000)
    return part


@given(FIELDS)
def test_a_rule_with_any_fields_is_read_and_removed_by_a_match_of_the_same_fields(
    fields: list[tuple[int, int, bool, bytes]],
) -> None:
    part = one_rule(fields)
    held = SwitchRules(RuleReader().rules([part]), {})
    steps = [step for stage in work(held, SwitchRules(), frozenset()).stages.values() for step in stage]
    ((removal,),) = (encoded(step, 1) for step in steps)
    # Behind the header and the fixed part of a FLOW_MOD (OpenFlow 1.3.5, section 7.3.4.1).
    match = removal.message(7)[48:]
    size = int.from_bytes(match[2:4], "big") - 4
    again = []
    at = 4
    while at < 4 + size:
        again.append(bytes(match[at : at + 4 + match[at + 3]]))
        at += 4 + match[at + 3]
    assert sorted(again) == sorted(
        struct.pack("!HBB", cls, n << 1 | masked, len(value)) + value for cls, n, masked, value in fields
    )
    with contextlib.suppress(ValueError):  # a known field of another size is no counter of ours
        FlowCounts().read([part])
