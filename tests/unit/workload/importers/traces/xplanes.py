"""Profiles of JAX, written field by field without the reader under test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

F32, BF16, TUPLE = 11, 16, 13
MODULE, STEPS = "jit_step", "step_num"


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value)


def data(tag: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return varint(tag << 3 | 2) + varint(len(content)) + content


def packed(tag: int, values: Sequence[int]) -> bytes:
    return data(tag, b"".join(map(varint, values)))


def shape(*dimensions: int, kind: int = F32) -> bytes:
    return number(2, kind) + packed(3, dimensions)


def tuple_shape(*shapes: bytes) -> bytes:
    return number(2, TUPLE) + b"".join(data(4, each) for each in shapes)


@dataclass(frozen=True)
class Instruction:
    """A collective; ``groups`` and ``pairs`` are fields of the instruction."""

    name: str
    opcode: str
    shape: bytes
    groups: bytes = b""


def listed(*groups: Sequence[int]) -> bytes:
    return b"".join(data(49, packed(1, group)) for group in groups)


def device_list(*groups: Sequence[int]) -> bytes:
    return data(87, b"".join(data(1, packed(1, group)) for group in groups))


def iota(rows: int, columns: int, dims: Sequence[int], order: Sequence[int]) -> bytes:
    return data(87, data(2, number(1, rows) + number(2, columns) + packed(3, dims) + packed(4, order)))


def mesh(sizes: Sequence[int], axes: Sequence[int]) -> bytes:
    of_mesh = b"".join(data(1, data(1, f"axis_{i}") + number(2, size)) for i, size in enumerate(sizes))
    return data(93, data(1, of_mesh) + b"".join(data(2, number(1, axis) if axis else b"") for axis in axes))


def pairs(*ends: tuple[int, int]) -> bytes:
    return b"".join(data(52, number(1, src) + number(2, dst)) for src, dst in ends)


@dataclass
class Run:
    """A program, how often each instruction ran on each of the devices of this process, and steps."""

    instructions: list[Instruction]
    devices: int
    times: dict[str, int]
    steps: int = 1
    local: int = 1
    planes: list[str] = field(default_factory=lambda: ["/host:CPU"])


def hlo(run: Run) -> bytes:
    rows = b"".join(
        data(2, data(1, each.name) + data(2, each.opcode) + data(3, each.shape) + each.groups)
        for each in [Instruction("p.0", "parameter", shape(3)), *run.instructions]
    )
    devices = number(1, 1) + number(2, run.devices)
    return data(1, data(1, MODULE) + data(3, data(1, "main") + rows) + data(15, devices))


def profile(run: Run) -> bytes:
    """Return the XSpace of a process."""
    names = {1: "hlo_op", 2: "hlo_module", 3: "device_ordinal", 4: "step_num", 5: MODULE, 6: "hlo_proto"}
    stat_names = b"".join(data(5, number(1, i) + data(2, number(1, i) + data(2, name))) for i, name in names.items())
    metadata = data(2, "/host:metadata") + data(
        4, number(1, 9) + data(2, number(1, 9) + data(2, f"{MODULE}(2)") + data(5, number(1, 6) + data(6, hlo(run))))
    )
    planes = data(1, metadata + stat_names)
    for plane in run.planes:
        events = b"".join(
            data(
                4,
                number(1, 1)
                + data(4, number(1, 1) + data(5, name))
                + data(4, number(1, 2) + number(7, 5))
                + data(4, number(1, 3) + data(5, str(device))),
            )
            for device in range(run.local)
            for name, times in run.times.items()
            for _ in range(times)
        )
        events += b"".join(data(4, number(1, 2) + data(4, number(1, 4) + number(3, i))) for i in range(run.steps))
        planes += data(1, data(2, plane) + stat_names + data(3, events))
    return planes
