"""The device of a QP keeps the pace of its row, where it can."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.verbs.layout import PortRow, QpRecord, RecordFlag, RecordKind
from agent.verbs.port_file import PortFile
from agent.verbs.qp_ring import QpRing
from tests.rig.verbs.programs import LOCAL, ConnectedQp, VerbsProgram
from tests.rig.waiting import eventually, standing
from tests.unit.verbs.conftest import Start

PEER = IPv4Address("10.0.2.1")
ABLE = {"TEST_DEVICE_PACES": "1000 100000000"}
KEPT = "fake0: QPs keep the paces of the agent"


def row(number: int, kbps: int) -> PortRow:
    return PortRow(LOCAL, PEER, number, 50000 + number, kbps)


def comes_to(program: VerbsProgram, wanted: Mapping[int, int]) -> None:
    eventually(
        lambda: {place: program.limit(place) for place in wanted} == wanted,
        "the device keeps the paces",
        shown=lambda: {place: program.limit(place) for place in wanted},
    )


def last(ring: QpRing) -> dict[int, QpRecord]:
    return {each.qp: each for each in ring.read()}


def test_a_device_that_paces_keeps_the_pace_of_the_row_as_it_changes(
    start: Start, ports: PortFile, ring: QpRing
) -> None:
    ports.write([row(1, 40_000_000), row(2, 0)])
    program = start(more=ABLE)
    paced, free = program.connect(str(PEER)), program.connect(str(PEER))
    # From its first packet on.
    assert (program.limit(paced.place), program.limit(free.place)) == (40_000_000, 0)
    records = last(ring)
    assert RecordFlag.QP_PACED in records[paced.number].flags
    assert RecordFlag.QP_PACED not in records[free.number].flags
    # Only paces change: the ports are the same, and nothing is lacking.
    for first, second in ((25_000_000, 12_500_000), (0, 30_000_000), (10_000_000, 0)):
        ports.write([row(1, first), row(2, second)])
        comes_to(program, {paced.place: first, free.place: second})
    assert program.lines == ["fake0: QPs get the ports of the agent", KEPT]
    assert (program.moved_to(paced.place), program.moved_to(free.place)) == (0, 0)
    records = last(ring)
    assert {each.kind for each in records.values()} == {RecordKind.MOVED}
    assert RecordFlag.QP_PACED in records[paced.number].flags
    assert RecordFlag.QP_PACED not in records[free.number].flags
    # A row that goes leaves the port, and no pace.
    ports.write([])
    comes_to(program, {paced.place: 0})
    program.end()


def test_a_new_path_and_a_new_pace_come_together(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 40_000_000)])
    program = start(moves=True, more=ABLE)
    qp = program.connect(str(PEER))
    ports.write([PortRow(LOCAL, PEER, 1, 60000, 20_000_000)])
    comes_to(program, {qp.place: 20_000_000})
    assert program.moved_to(qp.place) == 60000
    eventually(lambda: last(ring).get(qp.number, None) is not None, "it is reported")
    program.end()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "fake0: does not keep the paces of QPs (Operation not supported)"),
        ({**ABLE, "TEST_DEVICE_REFUSES_PACES": "1"}, "fake0: does not keep the paces of QPs (Invalid argument)"),
    ],
)
def test_a_device_that_cannot_connects_without(
    start: Start, ports: PortFile, ring: QpRing, more: Mapping[str, str], line: str
) -> None:
    ports.write([row(1, 40_000_000)])
    program = start(more=more)
    qp = program.connect(str(PEER))
    assert (qp.failed, program.limit(qp.place)) == (0, 0)
    assert qp.label
    assert program.lines == ["fake0: QPs get the ports of the agent", line]
    assert all(RecordFlag.QP_PACED not in each.flags for each in last(ring).values())
    program.end()


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(1, 7), st.integers(1, 3), st.integers(0, 100_000_000))
def test_qps_that_share_rows_share_their_paces(
    start: Start, ports: PortFile, ring: QpRing, many: int, rows: int, kbps: int
) -> None:
    """No rate is below the least of the device, and a pace that is above its highest is none."""
    ports.write(row(n, kbps) for n in range(1, rows + 1))
    program = start(more={"TEST_DEVICE_PACES": "1000 90000000"})
    qps = [program.connect(str(PEER)) for _ in range(many)]
    held = [sum(other % rows == n % rows for other in range(many)) for n in range(many)]

    def limit(qp: ConnectedQp) -> int:
        rate = kbps // held[qp.place]
        return 0 if rate == 0 or rate > 90_000_000 else max(rate, 1000)

    comes_to(program, {qp.place: limit(qp) for qp in qps})
    # Those that stay share what is left.
    assert program.ask("destroy 0") == "0"
    held = [sum(other % rows == n % rows for other in range(1, many)) for n in range(many)]
    comes_to(program, {qp.place: limit(qp) for qp in qps[1:]})
    program.kill()


def test_without_its_agent_nothing_is_paced(start: Start, ports: PortFile, ring: QpRing, tmp_path: Path) -> None:
    ports.write([row(1, 40_000_000)])
    program = start(more=ABLE)
    qp = program.connect(str(PEER))
    ports.close()
    comes_to(program, {qp.place: 0})
    ports.__init__(tmp_path)  # type: ignore[misc]
    ports.write([row(1, 30_000_000)])
    comes_to(program, {qp.place: 30_000_000})
    program.end()


def test_a_limit_of_the_program_stays(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 40_000_000), row(2, 40_000_000)])
    program = start(more=ABLE)
    own, other = program.connect(str(PEER)), program.connect(str(PEER))
    assert program.ask(f"limit {own.place}") == "0"
    ports.write([row(1, 30_000_000), row(2, 30_000_000)])
    comes_to(program, {other.place: 30_000_000})
    assert standing(lambda: program.limit(own.place)) == 40_000_000
    program.end()
