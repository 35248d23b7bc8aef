"""The agent's side: planned flows become rows, and QPs of programs are counted as they connect, wait and end."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.flow_keys import Address
from agent.verbs.layout import address_of, gid_of
from agent.verbs.program_ports import ProgramPorts, QpCounts
from tests.rig.verbs.programs import LOCAL
from tests.rig.waiting import eventually
from tests.unit.verbs.conftest import Start

PEER = IPv4Address("10.0.2.1")


@given(address=st.one_of(st.ip_addresses(v=4), st.integers(1 << 48, (1 << 128) - 1).map(IPv6Address)))
def test_a_gid_stands_for_one_address_of_either_version(address: Address) -> None:
    assert address_of(gid_of(address)) == address


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[ProgramPorts]:
    shared = ProgramPorts(tmp_path)
    yield shared
    shared.close()


def test_qps_are_counted_by_where_their_ports_come_from(start: Start, programs: ProgramPorts) -> None:
    programs.publish(LOCAL, {(PEER, 1): 50001, (PEER, 2): 50002})
    program = start()
    qps = [program.connect(str(PEER)) for _ in range(3)]
    program.connect(str(PEER), 4396)
    program.connect("10.0.2.2")
    assert programs.look() == QpCounts(open=5, planned=3, shared=1, own=1, hashed=1, waiting=0, lost=0)
    assert {(each.qp, each.port) for each in programs.open[:3]} == {
        (qp.number, port) for qp, port in zip(qps, (50001, 50002, 50001), strict=True)
    }
    program.ask(f"destroy {qps[1].place}")
    assert programs.look().open == 4
    program.kill()
    assert programs.look() == QpCounts(0, 0, 0, 0, 0, 0, 0)


def test_a_qp_that_cannot_move_waits_until_it_connects_again(
    start: Start, programs: ProgramPorts, caplog: pytest.LogCaptureFixture
) -> None:
    programs.publish(LOCAL, {(PEER, 1): 50001})
    program = start(moves=True, more={"TEST_DEVICE_STAYS": "1"})
    qp = program.connect(str(PEER))
    with caplog.at_level("INFO"):
        programs.publish(LOCAL, {(PEER, 1): 50007})
        assert programs.look().waiting == 1
        assert "1 get their new ports when they connect again" in caplog.text
    program.ask(f"destroy {qp.place}")
    program.connect(str(PEER))
    assert programs.look() == QpCounts(1, 1, 0, 0, 0, 0, 0)


def test_a_qp_that_moves_waits_no_more_and_one_that_was_not_planned_gets_a_port(
    start: Start, programs: ProgramPorts
) -> None:
    program = start(moves=True)
    qp = program.connect(str(PEER))
    assert programs.look() == QpCounts(1, 0, 0, 0, 1, 0, 0)
    # The numbers of flows are any.
    programs.publish(LOCAL, {(PEER, 50412): 50007})
    eventually(lambda: programs.look() == QpCounts(1, 1, 0, 0, 0, 0, 0), "the QP has moved", shown=programs.look)
    assert program.moved_to(qp.place) == 50007


def test_the_next_agent_knows_the_qps_that_are_open(start: Start, programs: ProgramPorts, tmp_path: Path) -> None:
    programs.publish(LOCAL, {(PEER, 1): 50001})
    start().connect(str(PEER))
    programs.close()
    again = ProgramPorts(tmp_path)
    assert again.look().open == 1
    again.close()
    programs.__init__(tmp_path)  # type: ignore[misc]
