"""What a referee compares."""

from __future__ import annotations

from emulation.packets.input_file import PacketSpread
from emulation.packets.referee import contenders_of
from emulation.packets.settings import PacketSettings
from tests.unit.emulation.evaluation.small import scenario


def test_policies_that_differ_in_the_rule_of_paces_alone_run_once_without_paces() -> None:
    by_levels = {"policy": "fair", "name": "levels", "options": {"paces": "levels"}}
    split = {"policy": "fair", "name": "split", "options": {"paces": "even", "max_splits": 3}}
    made = contenders_of(scenario(policies=["fair", "spray", by_levels, split]), [PacketSpread.REPS])
    assert [(each.name, each.paced, each.rule) for each in made] == [
        ("fair", False, "even"),
        ("fair+paced", True, "even"),
        ("levels+paced", True, "levels"),
        ("split", False, "even"),
        ("split+paced", True, "even"),
        ("spray reps", False, "even"),
    ]


def test_rows_say_what_keeps_flows_to_their_paces() -> None:
    keeping = PacketSettings(), PacketSettings(pace_window=1.0), PacketSettings(meters=0.5)
    made = [contenders_of(scenario(policies=["fair"]), [], each.kept) for each in keeping]
    assert [rows[1].name for rows in made] == ["fair+paced", "fair+windows", "fair+meters"]
