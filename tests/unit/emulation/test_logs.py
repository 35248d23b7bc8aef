"""A log with trouble in it is never taken for a clean one, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulation.logs import problems

TROUBLE = [
    "Traceback (most recent call last):",
    "2026-01-01T00:00:00Z|00012|connmgr|INFO|leaf1<->tcp:127.0.0.1:6653: "
    "sending OFPBAC_BAD_OUT_PORT error reply to OFPT_FLOW_MOD message",
    "2026-01-01T00:00:00Z|00012|vconn|WARN|OFPT_ERROR (OF1.3) (xid=0x9): OFPFMFC_TABLE_FULL",
    "EventOFPErrorMsg received.",
    "2026-01-01T00:00:00Z|00003|bridge|ERR|could not add network device x to ofproto (Device or resource busy)",
    "2026-01-01T00:00:00Z|00003|util|EMER|assertion x failed",
    "Exception ignored in: <generator object f at 0x7f>",
    "2026-01-01 00:00:00 ERROR controller.service plan failed",
]

CLEAN = [
    "",
    "loading app controller.app",
    "2026-01-01T00:00:00Z|00051|rconn|INFO|leaf1<->tcp:127.0.0.1:6653: connecting...",
    "2026-01-01T00:00:00Z|00052|rconn|WARN|leaf1<->tcp:127.0.0.1:6653: connection failed (Connection refused)",
    "2026-01-01T00:00:00Z|00176|dpif_netdev|ERR|error receiving data from leaf1-eth1: Network is down",
    "plan 3 is active on 8 switches",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.one_of(st.sampled_from(CLEAN), st.sampled_from(TROUBLE)), max_size=12))
def test_exactly_the_lines_that_mean_trouble_are_found_each_with_its_place(tmp_path: Path, lines: list[str]) -> None:
    log = tmp_path / "some.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    assert problems(log) == [f"{log}:{i}: {line}" for i, line in enumerate(lines, start=1) if line in TROUBLE]


def test_an_error_that_a_test_provokes_can_be_excepted_by_its_pattern_and_only_that_one(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    log.write_text("\n".join(TROUBLE))
    left = problems(log, harmless=[(r"OFPFMFC_TABLE_FULL$", "the table is filled on purpose")])
    assert len(left) == len(TROUBLE) - 1
    assert not any("OFPFMFC_TABLE_FULL" in line for line in left)


def test_bytes_that_are_no_text_hide_nothing(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    log.write_bytes(b"\xff\xfe\n" + TROUBLE[0].encode() + b"\n")
    assert problems(log) == [f"{log}:2: {TROUBLE[0]}"]


@pytest.mark.parametrize("name", ["missing.log", "empty.log"])
def test_a_log_that_is_not_there_or_empty_is_clean(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty.log").touch()
    assert problems(tmp_path / name) == []


DROPPED = (
    "2026-11-22T13:31:48Z|02794|dpif_netdev|ERR|Dropped 6 log messages in last 55 seconds "
    "(most recently, 4 seconds ago) due to excessive rate"
)
DOWN = "2026-11-22T13:31:48Z|02795|dpif_netdev|ERR|error receiving data from leaf1-eth1: Network is down"
OTHER = "2026-11-22T13:31:48Z|02795|dpif_netdev|ERR|error receiving data from leaf1-eth1: Input/output error"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((DROPPED, DOWN), []),
        ((DROPPED, "2026-11-22T13:31:48Z|02795|bridge|INFO|port added", DOWN), []),
        ((DROPPED, OTHER), [1, 2]),
        ((DROPPED,), [1]),
        ((DROPPED, *["2026-11-22T13:31:48Z|02795|bridge|INFO|port added"] * 3, DOWN), [1]),
    ],
)
def test_a_note_of_suppressed_lines_is_as_harmless_as_the_line_that_it_precedes(
    tmp_path: Path, lines: tuple[str, ...], found: list[int]
) -> None:
    log = tmp_path / "ovs-vswitchd.log"
    log.write_text("\n".join(lines) + "\n")
    assert [int(problem.removeprefix(f"{log}:").split(":")[0]) for problem in problems(log)] == found
