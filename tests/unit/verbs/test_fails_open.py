"""Whatever is wrong, QPs connect as without the substitute, and one line says so."""

from __future__ import annotations

import struct
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from agent.errors import HostAgentError
from agent.verbs.layout import HEADER, FileState, PortRow, offset_of
from agent.verbs.port_file import PortFile
from agent.verbs.qp_ring import QpRing
from tests.rig.verbs.programs import LOCAL, VerbsProgram
from tests.unit.verbs.conftest import Start

PEER = IPv4Address("10.0.2.1")
ROWS = [PortRow(LOCAL, PEER, n, 50000 + n) for n in range(1, 4)]


def unplanned(program: VerbsProgram) -> None:
    for _ in range(2):
        qp = program.connect(str(PEER))
        assert (qp.failed, qp.label) == (0, 0)


def test_without_files(start: Start) -> None:
    program = start()
    unplanned(program)
    assert [line.split("/")[-1] for line in program.lines] == [
        f"{name}: No such file or directory; ports stay those of the device" for name in ("ports", "queue-pairs")
    ]
    program.end()


def test_without_an_agent_that_runs(start: Start, ports: PortFile, ring: QpRing, tmp_path: Path) -> None:
    ports.write(ROWS)
    ports.close()
    program = start()
    unplanned(program)
    assert program.lines == ["the agent does not run; ports stay those of the device"]
    # The next agent is seen, without the program beginning anew.
    ports.__init__(tmp_path)  # type: ignore[misc]
    ports.write(ROWS)
    assert program.connect(str(PEER)).label
    assert len([*ring.read()]) == 3


def test_switched_off(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write(ROWS)
    program = start(more={"FAIRSPINE_VERBS": "off"})
    unplanned(program)
    assert not [*ring.read()]
    assert not program.lines


def _set(fields: tuple[tuple[str, str], ...], name: str, value: int, code: str = "<I") -> Callable[[bytearray], None]:
    def change(content: bytearray) -> None:
        struct.pack_into(code, content, offset_of(fields, name), value)

    return change


def _no_row_is_whole(content: bytearray) -> None:
    content[64:] = bytes(byte ^ 0x5A for byte in content[64:])


DAMAGES: dict[str, tuple[Callable[[bytearray], None], str]] = {
    "magic": (_set(HEADER, "magic", 7), "is damaged"),
    "version": (_set(HEADER, "version", 3), "has another layout"),
    "capacity": (_set(HEADER, "capacity", 1 << 30), "is damaged"),
    "row_bytes": (_set(HEADER, "row_bytes", 40), "is damaged"),
    "rows": (_set(HEADER, "rows", 1 << 40, "<2Q"[:2] + "Q"), "is damaged"),
    "generation": (_set(HEADER, "newest", 1 << 20, "<Q"), "is damaged"),
    "content": (_no_row_is_whole, "is damaged"),
    "short": (lambda content: content.__delitem__(slice(1000, None)), "is damaged"),
    "empty": (bytearray.clear, "is damaged"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_with_a_damaged_table(start: Start, ports: PortFile, ring: QpRing, tmp_path: Path, what: str) -> None:
    ports.write(ROWS)
    ports.write(ROWS[:2])
    change, told = DAMAGES[what]
    content = bytearray((tmp_path / "ports").read_bytes())
    if what == "rows":
        struct.pack_into("<QQ", content, offset_of(HEADER, "rows"), 1 << 40, 1 << 40)
    else:
        change(content)
    program = start()
    # In place, as the agent has the file open; what it has mapped stays.
    with (tmp_path / "ports").open("r+b") as file:
        file.write(content)
        file.truncate(len(content))
    unplanned(program)
    assert [told in line for line in program.lines] == [True]
    # What is reported does not depend on the table.
    assert len([*ring.read()]) == 2
    with (tmp_path / "ports").open("r+b") as file:
        file.truncate(1 << 23)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("magic", 7, "is damaged"),
        ("version", 3, "has another layout"),
        ("capacity", 1 << 30, "is damaged"),
        ("capacity", 0, "is damaged"),
    ],
)
def test_with_a_damaged_ring(
    start: Start, ports: PortFile, ring: QpRing, tmp_path: Path, name: str, value: int, told: str
) -> None:
    ports.write(ROWS)
    with (tmp_path / "queue-pairs").open("r+b") as file:
        file.seek(offset_of(HEADER, name))
        file.write(struct.pack("<I", value))
    program = start()
    unplanned(program)
    (line,) = program.lines
    assert told in line


def test_files_that_become_shorter_are_not_read(start: Start, ports: PortFile, ring: QpRing, tmp_path: Path) -> None:
    ports.write(ROWS)
    program = start()
    assert program.connect(str(PEER)).label
    for name in ("ports", "queue-pairs"):
        with (tmp_path / name).open("r+b") as file:
            file.truncate(10)
    unplanned(program)
    for name in ("ports", "queue-pairs"):
        with (tmp_path / name).open("r+b") as file:
            file.truncate(1 << 23)


def test_a_row_that_is_damaged_is_not_used(start: Start, ports: PortFile, ring: QpRing, tmp_path: Path) -> None:
    ports.write(ROWS[:1])
    content = (tmp_path / "ports").read_bytes()
    at = content.index(LOCAL.packed)
    with (tmp_path / "ports").open("r+b") as file:
        file.seek(at)
        file.write(IPv4Address("10.0.1.2").packed)
    program = start()
    unplanned(program)
    assert len(program.lines) == 1


def test_a_device_that_refuses_labels_connects_without(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write(ROWS)
    program = start(more={"TEST_DEVICE_REFUSES": "1"})
    unplanned(program)
    assert program.lines == ["fake0: refuses flow labels; ports stay those of the device"]
    assert {each.number for each in ring.read()} == {0}


def test_a_port_that_no_label_gives_is_not_promised(start: Start, ports: PortFile, ring: QpRing) -> None:
    ports.write([PortRow(LOCAL, PEER, 1, 40000)])
    program = start()
    unplanned(program)
    assert [line.startswith("port 40000 is below 49152") for line in program.lines] == [True]


def test_files_of_another_layout_are_replaced_and_their_users_follow(start: Start, tmp_path: Path) -> None:
    small = PortFile(tmp_path, capacity=16)
    first = QpRing(tmp_path, capacity=16)
    small.write(ROWS)
    program = start()
    assert program.connect(str(PEER)).label == 50001 & 0x3FFF
    small.close()
    first.close()
    table, ring = PortFile(tmp_path), QpRing(tmp_path)
    table.write([PortRow(LOCAL, PEER, 1, 60001)])
    assert program.connect(str(PEER)).label
    # The old row is that of the old file: the new one is free in the new ring, but not in this program.
    assert len([*ring.read()]) == 1
    table.close()
    ring.close()


def test_a_second_agent_is_refused(ports: PortFile, tmp_path: Path) -> None:
    with pytest.raises(HostAgentError, match="another agent has it"):
        PortFile(tmp_path)


def test_more_rows_than_have_room_are_refused(tmp_path: Path) -> None:
    file = PortFile(tmp_path, capacity=2)
    with pytest.raises(HostAgentError, match="3 QPs have ports, and 2 have room"):
        file.write(ROWS)
    file.close()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostAgentError, match="File exists"):
        PortFile(tmp_path / "file")


def test_a_ring_that_is_full_tells_how_many_records_are_lost(start: Start, ports: PortFile, tmp_path: Path) -> None:
    ring = QpRing(tmp_path, capacity=4)
    program = start()
    qps = [program.connect(str(PEER)) for _ in range(7)]
    assert [each.qp for each in ring.read()] == [qp.number for qp in qps[3:]]
    assert ring.lost == 3
    assert FileState.IN_USE
    ring.close()
