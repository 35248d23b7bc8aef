"""Results of the experiment of re-plans: what is wrong with them, and their table."""

from __future__ import annotations

import pytest

from emulation.errors import LabError
from emulation.experiments.hedera.packet_paths import last_port
from emulation.experiments.learned.job_clock import JobClock
from emulation.experiments.learned.replan_run import AT_ONCE, GAP, Replan, ReplanOutcome, ReplanRound, burst_means
from emulation.experiments.learned.replan_table import print_replans
from emulation.roce.job_cycle import JobCycle


def outcome(in_gap: Replan, amid: Replan) -> ReplanOutcome:
    return ReplanOutcome(
        "host", 4, (ReplanRound(GAP, (in_gap, in_gap), 0, 3.0, 3.1), ReplanRound(AT_ONCE, (amid, amid), 2, 3.5, 3.1))
    )


GOOD = outcome(Replan(3, False, 0, 0), Replan(4, True, 17, 80))


def test_packets_out_of_sequence_are_wrong_in_idle_times_only() -> None:
    assert GOOD.failures() == []
    bad = outcome(Replan(3, True, 1, 5), Replan(0, True, 0, 0))
    assert [text.split(":")[0] for text in bad.failures()] == [GAP, AT_ONCE, AT_ONCE]


def test_the_table_and_the_document_have_the_sums_over_all_plans(capsys: pytest.CaptureFixture[str]) -> None:
    print_replans(GOOD)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if " a" in line and "s" in line.split()]
    assert rows[0][-10:] == ["2", "0", "6", "0", "0", "0", "3.00", "s", "3.10", "s"]
    assert rows[1][-10:] == ["2", "2", "8", "34", "160", "2", "3.50", "s", "3.10", "s"]
    assert [row["naks"] for row in GOOD.document()["rounds"]] == [0, 34]


def test_bursts_at_changes_are_those_that_go_on_or_come_next() -> None:
    clock = JobClock([JobCycle("a", 9, ((0, 1.0),))])
    for stage, at in enumerate((1.0, 4.0, 8.0, 13.0)):
        clock.on_ended("a", stage, at)
    # Bursts: 2 to 4, 5 to 8, 9 to 13.
    assert burst_means(clock, [3.0]) == (2.0, 3.5)
    assert burst_means(clock, [4.5]) == (3.0, 3.0)
    concerned, others = burst_means(clock, [])
    assert concerned != concerned
    assert others == 3.0


def test_a_traced_packet_goes_to_the_last_port_of_its_actions() -> None:
    assert last_port("Final flow: udp\nDatapath actions: 7\n") == "7"
    assert last_port("Datapath actions: push_mpls(label=16,tc=0,ttl=64,bos=1,eth_type=0x8847),12") == "12"
    with pytest.raises(LabError, match="nowhere"):
        last_port("Datapath actions: drop")
