"""Collectives of a compiled program (HloProto of OpenXLA, xla/service/hlo.proto)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from controller.model.job import Op
from controller.workload.importers.jax.wire import Field, WireError, fields, numbers

OPS: dict[str, Op] = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "send_recv",
}
"""Operations by opcodes; ``-start`` is the begin of one beside which others go on."""
START = "-start"

_WIDTHS = {
    **dict.fromkeys((1, 2, 6, 19, 20, 23, 24, 25, 28, 29, 33), 1),  # PRED, S8, U8 and the 8-bit floats
    **dict.fromkeys((3, 7, 10, 16), 2),  # S16, U16, F16, BF16
    **dict.fromkeys((4, 8, 11), 4),  # S32, U32, F32
    **dict.fromkeys((5, 9, 12, 15), 8),  # S64, U64, F64, C64
    18: 16,  # C128
}
"""Bytes of an element by its type (PrimitiveType, xla/xla_data.proto)."""
_TUPLE = 13
_MOST_RANKS = 1 << 17


@dataclass
class HloCollective:
    """A collective of a program.

    Attributes:
        name: of the instruction.
        op: the operation.
        parts: bytes of its result on one device; several where that is a tuple.
        groups: devices of each group, counted from 0 as the program does; empty: all.
        pairs: (sender, receiver) of a permutation.
        is_start: whether the result has the operand before it.
    """

    name: str
    op: Op
    parts: list[int]
    groups: list[list[int]] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    is_start: bool = False


@dataclass
class HloProgram:
    """A compiled program: on how many devices it runs, and its collectives."""

    name: str
    devices: int = 1
    collectives: list[HloCollective] = field(default_factory=list)


def program_of(proto: bytes) -> HloProgram:
    """Read an HloProto.

    Raises:
        WireError: it is none, or has an element type that is not known.
    """
    module = next((each.data for each in fields(proto) if each.tag == 1), b"")
    program = HloProgram("")
    for each in fields(module):
        if each.tag == 1:
            program.name = each.data.decode("utf-8", "replace")
        elif each.tag == 3:
            for part in fields(each.data):
                if part.tag == 2:
                    collective = _collective(part.data)
                    program.collectives += [collective] if collective is not None else []
        elif each.tag == 15:
            counts = {part.tag: part.number for part in fields(each.data) if part.tag in (1, 2)}
            program.devices = counts.get(1, 1) * counts.get(2, 1)
    if program.devices > _MOST_RANKS:
        raise WireError(f"a program for {program.devices} devices")
    return program


def _collective(instruction: bytes) -> HloCollective | None:
    rows = list(fields(instruction))
    opcode = next((each.data.decode("utf-8", "replace") for each in rows if each.tag == 2), "")
    op = OPS.get(opcode.removesuffix(START))
    if op is None:
        return None
    collective = HloCollective("", op, [], is_start=opcode.endswith(START))
    for each in rows:
        match each.tag:
            case 1:
                collective.name = each.data.decode("utf-8", "replace")
            case 3:
                collective.parts = _sizes(each.data)
            case 49:
                collective.groups.append(_group(each.data))
            case 52:
                ends = {part.tag: part.number for part in fields(each.data)}
                collective.pairs.append((ends.get(1, 0), ends.get(2, 0)))
            case 87:
                collective.groups += _listed(each.data)
            case 93:
                collective.groups += _on_mesh(each.data)
    return collective


def _sizes(shape: bytes) -> list[int]:
    """Return the bytes of the parts of a shape; one where it is no tuple."""
    rows = list(fields(shape))
    kind = next((each.number for each in rows if each.tag == 2), 0)
    if kind == _TUPLE:
        return [size for each in rows if each.tag == 4 for size in _sizes(each.data)]
    if kind not in _WIDTHS:
        raise WireError(f"an element of type {kind}")
    return [_WIDTHS[kind] * math.prod(n for each in rows if each.tag == 3 for n in numbers(each))]


def _group(data: bytes) -> list[int]:
    return [rank for each in fields(data) if each.tag == 1 for rank in numbers(each)]


def _listed(data: bytes) -> list[list[int]]:
    """Return the groups of a CollectiveDeviceListProto, one by one or as an array that is reshaped and transposed."""
    groups: list[list[int]] = []
    for each in fields(data):
        if each.tag == 1:
            groups.append(_group(each.data))
        elif each.tag == 2:
            groups += _iota(each)
    return groups


def _iota(field_: Field) -> list[list[int]]:
    has: dict[int, list[int]] = {}
    for each in fields(field_.data):
        has.setdefault(each.tag, []).extend(numbers(each))
    number, size = has.get(1, [0])[0], has.get(2, [0])[0]
    shape = has.get(3, [number * size])
    _check(math.prod(shape))
    order = has.get(4, list(range(len(shape))))
    if sorted(order) != list(range(len(shape))) or math.prod(shape) != number * size:
        raise WireError("groups that are no array")
    return _rows(np.arange(number * size).reshape(shape).transpose(order).reshape(number, size))


def _on_mesh(data: bytes) -> list[list[int]]:
    """Return the groups along axes of a mesh of devices."""
    mesh = next((each.data for each in fields(data) if each.tag == 1), b"")
    shape = [
        next((part.number for part in fields(axis.data) if part.tag == 2), 1) for axis in fields(mesh) if axis.tag == 1
    ]
    chosen = []
    for each in fields(data):
        if each.tag == 2:
            reference = {part.tag: part.number for part in fields(each.data)}
            if 2 in reference:
                raise WireError("groups along a part of an axis")
            chosen.append(reference.get(1, 0))
    if any(axis >= len(shape) for axis in chosen) or any(each.tag not in (1,) for each in fields(mesh)):
        raise WireError("a mesh whose devices are in an order of their own")
    _check(math.prod(shape))
    rest = [axis for axis in range(len(shape)) if axis not in chosen]
    size = math.prod(shape[axis] for axis in chosen)
    return _rows(np.arange(math.prod(shape)).reshape(shape).transpose([*rest, *chosen]).reshape(-1, size))


def _rows(groups: np.ndarray) -> list[list[int]]:
    listed: list[list[int]] = groups.tolist()
    return listed


def _check(devices: int) -> None:
    if not 0 < devices <= _MOST_RANKS:
        raise WireError(f"groups of {devices} devices")
