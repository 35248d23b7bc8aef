"""Gloo's events in traces of torch.profiler: ``gloo:all_reduce`` and others, of collectives of tensors on CPUs.

Their names are their operations, and no group is stated. With ``record_shapes=True`` of the profiler they have shapes
(``Input Dims``) and types (``Input type``) of their tensors. Seen in traces of PyTorch 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.chakra.trace import WORLD, Key, RankTrace, is_known, op_of
from controller.workload.importers.pytorch.dtypes import width_of

_PREFIX = "gloo:"
_SHAPES = "Input Dims"
_TYPES = "Input type"


class GlooEvents:
    """The events of one trace."""

    def __init__(self) -> None:
        """Begin without any."""
        self._rows: list[tuple[str, Mapping[str, Any], str]] = []
        self._without_shapes = 0

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._rows or self._without_shapes)

    def take(self, event: Mapping[str, Any], where: str) -> bool:
        """Take an event of the trace, and return whether it is Gloo's."""
        name = event["name"]
        if not name.startswith(_PREFIX):
            return False
        has = event.get("args")
        if isinstance(has, dict) and _SHAPES in has:
            self._rows.append((name.removeprefix(_PREFIX), has, where))
        elif is_known(name.removeprefix(_PREFIX)) and op_of(name.removeprefix(_PREFIX)) is None:
            pass  # A barrier has no tensors.
        else:
            self._without_shapes += 1
        return True

    def add_to(self, trace: RankTrace) -> None:
        """Add them to the totals of their rank.

        Raises:
            InputError: they have no shapes, or no one can tell of which group they are.
        """
        if self._without_shapes:
            reason = f"has {self._without_shapes} events of Gloo without shapes; record_shapes=True of torch.profiler"
            raise trace.error(f"{reason} records them", "traceEvents")
        groups = [name for name, ranks in trace.groups.items() if len(ranks) != 1]
        if self._rows and len(groups) > 1:
            reason = f"has {len(groups)} groups, and events of Gloo do not name theirs"
            raise trace.error(reason, "distributedInfo.pg_config")
        group = groups[0] if groups else WORLD
        for name, has, where in self._rows:
            op = op_of(name)
            if op in ("send", "recv"):
                trace.leave_out(f"{op} without its peer")
            elif op is not None:
                trace.add(Key(group, op), _size(trace, has, where), where)
            elif not is_known(name):
                trace.leave_out(f"run of {_PREFIX + name!r:.40}, which is an unknown operation")


def _size(trace: RankTrace, has: Mapping[str, Any], where: str) -> int:
    """Return the bytes of the tensors of an operation."""
    shapes, types = has[_SHAPES], has.get(_TYPES)
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
        raise trace.error(f"{_SHAPES} and {_TYPES} are not lists of one length", where)
    total = 0
    for shape, name in zip(shapes, types, strict=True):
        if not isinstance(shape, list) or not all(type(n) is int and 0 <= n <= MAX_BYTES for n in shape):
            raise trace.error(f"{_SHAPES}: {shape!r:.40} is not a shape", where)
        width = width_of(str(name))
        if width is None:
            raise trace.error(f"{_TYPES}: {name!r:.40} is an unknown data type", where)
        total += math.prod(shape) * width
    return total
