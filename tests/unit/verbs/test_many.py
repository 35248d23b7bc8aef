"""Many QPs, by many threads, of several programs; and what sanitizers say of it."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Address

import pytest

from agent.verbs.layout import PortRow, RecordKind
from agent.verbs.port_file import PortFile
from agent.verbs.qp_ring import QpRing
from tests.rig.verbs.programs import LOCAL, VerbsBuild, build
from tests.rig.waiting import eventually
from tests.unit.verbs.conftest import Start

PEER = "10.0.2.1"
MANY = 10_000


def rows(many: int, first: int = 0xC000) -> list[PortRow]:
    return [PortRow(LOCAL, IPv4Address(PEER), n, first + n % 0x3000) for n in range(1, many + 1)]


def test_ten_thousand_qps_of_threads_and_programs_have_a_row_each(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write(rows(MANY))
    programs = [start(), start()]
    halves = [program.ask(f"many {MANY // 2} 4 {PEER}").split() for program in programs]
    assert [half[0] for half in halves] == ["0", "0"]
    records = [*ring.read()]
    assert Counter(each.number for each in records) == Counter(range(1, MANY + 1))
    assert ring.lost == 0
    assert [program.ask("end") for program in programs] == ["0", "0"]
    assert {each.kind for each in ring.read()} == {RecordKind.CLOSED}


def exercise(start: Start, of: VerbsBuild, ports: PortFile, ring: QpRing) -> None:
    """Connect, move, fork, and end, while the table changes."""
    ports.write(rows(300))
    program, other = start(of, moves=True), start(of, moves=True)
    assert program.ask(f"many 200 4 {PEER}").split()[0] == "0"
    assert other.ask(f"many 200 4 {PEER}").split()[0] == "0"
    for turn in range(3):
        ports.write(rows(300 + turn, 0xC100 + turn))
        assert program.connect(PEER).failed == 0
    wanted = {row.number: row.port for row in rows(302, 0xC102)}
    last: dict[int, tuple[int, int]] = {}

    def moved() -> bool:
        for each in ring.read():
            last[each.process, each.qp] = each.number, each.port  # type: ignore[index]
        return len(last) == 403 and all(wanted[number] == port for number, port in last.values())

    eventually(moved, "all QPs have the ports of the last table", shown=lambda: len(last))
    assert program.fork_and_connect(PEER).failed == 0
    assert program.ask("destroy 0") == "0"
    assert program.ask("end") == "0"
    program.end()
    other.end()


def test_moves_while_threads_connect(start: Start, made: VerbsBuild, ports: PortFile, ring: QpRing) -> None:
    exercise(start, made, ports, ring)


@pytest.mark.parametrize("kind", ["address", "thread"])
def test_sanitizers_have_no_complaint(
    start: Start, tmp_path_factory: pytest.TempPathFactory, ports: PortFile, ring: QpRing, kind: str
) -> None:
    exercise(start, build(tmp_path_factory.mktemp(kind), kind), ports, ring)
