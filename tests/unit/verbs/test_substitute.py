"""A program that loads libibverbs gets our substitute, and its QPs the ports of the agent's table."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Address

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.verbs.layout import PortRow, RecordFlag, RecordKind
from agent.verbs.port_file import PortFile
from agent.verbs.qp_ring import QpRing
from controller.model.queue_pairs import udp_source_port
from tests.rig.verbs.programs import LOCAL, VerbsBuild
from tests.rig.waiting import eventually
from tests.unit.verbs.conftest import Start

PEER, OTHER = IPv4Address("10.0.2.1"), IPv4Address("10.0.2.2")
PLANNED, SHARED = RecordFlag.PORT_PLANNED, RecordFlag.PORT_SHARED


def row(number: int, port: int, remote: IPv4Address = PEER) -> PortRow:
    return PortRow(LOCAL, remote, number, port)


def port_of(label: int) -> int:
    """The port that a device of Linux makes of a label (rdma_flow_label_to_udp_sport)."""
    return ((label & 0x3FFF) ^ (label >> 14)) | 0xC000


@pytest.mark.parametrize("name", ["loading", "linked"])
@pytest.mark.parametrize("by", ["path", "preload"])
def test_the_real_library_does_everything_but_what_the_substitute_does(
    made: VerbsBuild, start: Start, ports: PortFile, ring: QpRing, name: str, by: str
) -> None:
    ports.write([row(1, 50000), row(2, 0xC000), row(1, 65500, OTHER)])
    program = start(name=name, by=by)
    assert (program.device, program.library) == ("fake0", str(made.substitute / "libibverbs.so.1"))
    qps = [program.connect(str(PEER)), program.connect(str(PEER)), program.connect(str(OTHER))]
    assert [port_of(qp.label) for qp in qps] == [50000, 0xC000, 65500]
    assert all(qp.label and (qp.failed, qp.left) == (0, 0) for qp in qps)
    records = [*ring.read()]
    assert [(each.qp, each.remote_qp, each.port, each.number) for each in records] == [
        (qps[0].number, 77, 50000, 1),
        (qps[1].number, 77, 0xC000, 2),
        (qps[2].number, 77, 65500, 1),
    ]
    assert {(each.local, each.kind, each.flags, each.device) for each in records} == {
        (LOCAL, RecordKind.CONNECTED, PLANNED, "fake0")
    }
    assert program.lines == ["fake0: QPs get the ports of the agent"]
    program.end()


def test_two_functions_are_its_own_and_none_that_sends(made: VerbsBuild) -> None:
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", made.substitute / "libibverbs.so.1"], capture_output=True, text=True, check=True
    ).stdout
    functions = {line.split()[2] for line in shown.splitlines() if line.split()[1] == "T"}
    assert functions == {"ibv_modify_qp@@IBVERBS_1.1", "ibv_destroy_qp@@IBVERBS_1.1"}


def test_without_the_substitute_labels_stay_as_they_are(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 50000)])
    program = start(by="none")
    assert program.connect(str(PEER)).label == 0
    assert not [*ring.read()]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(0xC000, 0xFFFF), max_size=6), st.integers(0, 8))
def test_each_qp_of_a_pair_has_a_row_of_its_own_until_there_are_none(
    start: Start, ports: PortFile, ring: QpRing, chosen: list[int], many: int
) -> None:
    ports.write(row(n, port) for n, port in enumerate(chosen, 1))
    program = start()
    qps = [program.connect(str(PEER)) for _ in range(many)]
    # Beyond the rows of the plan, QPs take turns.
    wanted = [chosen[n % len(chosen)] if chosen else None for n in range(many)]
    assert [port_of(qp.label) if qp.label else None for qp in qps] == wanted
    records = [*ring.read()]
    assert [bool(each.flags & SHARED) for each in records] == [bool(chosen) and n >= len(chosen) for n in range(many)]
    program.kill()


def test_rows_of_two_programs_are_different_and_are_free_again_when_one_ends(
    start: Start, ports: PortFile, ring: QpRing
) -> None:
    ports.write(row(n, 50000 + n) for n in range(1, 5))
    first, second = start(), start()
    held = [first.connect(str(PEER)), second.connect(str(PEER)), first.connect(str(PEER)), second.connect(str(PEER))]
    assert [port_of(qp.label) for qp in held] == [50001, 50002, 50003, 50004]
    first.kill()
    # The kernel has released what the killed one had.
    assert sorted(port_of(second.connect(str(PEER)).label) for _ in range(2)) == [50001, 50003]
    processes = {each.process: ring.runs(each.process) for each in ring.read()}
    assert sorted(processes.values()) == [False, True]


def test_a_destroyed_and_a_reset_qp_give_their_rows_back(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 50001), row(2, 50002)])
    program = start()
    first, second = program.connect(str(PEER)), program.connect(str(PEER))
    assert program.ask(f"destroy {first.place}") == "0"
    assert program.ask(f"reset {second.place}") == "0"
    assert [port_of(program.connect(str(PEER)).label) for _ in range(2)] == [50001, 50002]
    closed = [each.qp for each in ring.read() if each.kind == RecordKind.CLOSED]
    assert closed == [first.number, second.number]


def test_a_qp_that_cannot_be_destroyed_keeps_its_row(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 50001), row(2, 50002)])
    program = start(more={"TEST_DEVICE_KEEPS": "1"})
    kept = program.connect(str(PEER))
    assert int(program.ask(f"destroy {kept.place}")) != 0
    assert port_of(program.connect(str(PEER)).label) == 50002
    assert {each.kind for each in ring.read()} == {RecordKind.CONNECTED}


def test_a_label_of_the_program_stays_and_is_reported(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 50000)])
    assert start().connect(str(PEER), 4396).label == 4396
    (record,) = ring.read()
    assert (record.flags, record.port, record.number) == (RecordFlag.PORT_OWN, 53548, 0)


def test_qps_without_a_row_are_reported_with_the_port_that_linux_derives(
    start: Start, ports: PortFile, ring: QpRing
) -> None:
    qp = start().connect(str(PEER))
    (record,) = ring.read()
    derived = udp_source_port(np.array([qp.number]), np.array([77]))
    assert (qp.label, record.flags, record.port) == (0, RecordFlag.PORT_DERIVED, int(derived[0]))


def test_other_kinds_of_qps_and_of_gids_are_left_alone(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 50000)])
    program = start()
    assert program.connect(str(PEER), verb="datagram").label == 0
    assert program.connect(f"{PEER}/1").label == 0
    assert not [*ring.read()]
    assert not program.lines


def test_a_running_qp_moves_to_its_new_port_where_the_device_can(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 50001)])
    program = start(moves=True)
    planned, shared, other = program.connect(str(PEER)), program.connect(str(PEER)), program.connect(str(OTHER))
    assert [port_of(planned.label), port_of(shared.label), other.label] == [50001, 50001, 0]
    # Below 0xC000, too: that is no matter of labels.
    ports.write([row(1, 40001), row(2, 50002), row(1, 50003, OTHER)])
    wanted = {planned.place: 40001, shared.place: 50002, other.place: 50003}
    eventually(
        lambda: {n: program.moved_to(n) for n in wanted} == wanted,
        "QPs have their new ports",
        shown=lambda: {n: program.moved_to(n) for n in wanted},
    )
    moved = {each.qp: (each.port, each.number) for each in ring.read() if each.kind == RecordKind.MOVED}
    assert moved == {planned.number: (40001, 1), shared.number: (50002, 2), other.number: (50003, 1)}
    # Rows that go leave QPs as they are.
    ports.write([])
    ports.write([row(1, 40002)])
    eventually(lambda: program.moved_to(planned.place) == 40002, "the first QP has moved again")
    assert program.moved_to(shared.place) == 50002
    program.end()


@pytest.mark.parametrize("real", [False, True])
def test_where_the_device_cannot_the_next_connection_has_the_new_port(
    start: Start, ports: PortFile, ring: QpRing, real: bool
) -> None:
    ports.write([row(1, 50001)])
    # With Debian's libmlx5, which refuses devices of others, and with one that refuses them all.
    program = start(moves=not real, more={} if real else {"TEST_DEVICE_STAYS": "1"})
    before = program.connect(str(PEER))
    ports.write([row(1, 50002)])
    eventually(lambda: any("when QPs connect again" in line for line in program.lines), "it is told")
    assert program.moved_to(before.place) == 0
    program.ask(f"destroy {before.place}")
    assert port_of(program.connect(str(PEER)).label) == 50002


def test_a_child_begins_anew(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([row(1, 50001), row(2, 50002)])
    program = start(moves=True)
    assert port_of(program.connect(str(PEER)).label) == 50001
    # The row of the parent is taken; that of the child is free when it ends.
    assert port_of(program.fork_and_connect(str(PEER)).label) == 50002
    assert port_of(program.connect(str(PEER)).label) == 50002
    assert len({each.process for each in ring.read()}) == 2
    program.end()
