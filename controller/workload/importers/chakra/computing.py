"""The computing times in execution traces, between the operations of communication.

A GPU's computations run one after the other, and so do those of a processor, which calls the GPU's: the GPU's are
counted where a trace has any. Each counts as the time before the next operation, also where both may overlap
(``order``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Operation = tuple[str, str]
"""Group, and operation of one of its collectives."""


@dataclass
class Computing:
    """The seconds that one rank computes before the runs of each operation; ``None``: after all of them."""

    gpu: dict[Operation | None, float] = field(default_factory=dict)
    processor: dict[Operation | None, float] = field(default_factory=dict)

    def add(self, seconds: float, *, on_gpu: bool = True) -> None:
        """Add a computation."""
        table = self.gpu if on_gpu else self.processor
        table[None] = table.get(None, 0.0) + seconds

    def reach(self, operation: Operation) -> None:
        """Count the computations since the last operation as the time before this one."""
        for table in (self.gpu, self.processor):
            if None in table:
                table[operation] = table.get(operation, 0.0) + table.pop(None)

    @property
    def seconds(self) -> Mapping[Operation | None, float]:
        """Seconds of the GPU, or of the processor where the trace has none of a GPU."""
        return self.gpu if any(self.gpu.values()) else self.processor


def by_phase(ranks: Iterable[Computing], phases: Mapping[Operation, int], iterations: int) -> dict[int, float]:
    """Return the seconds of an iteration before each phase, of the rank that computes longest.

    Args:
        ranks: the computations of each rank.
        phases: the phase of each operation; the computations before others are before the first phase.
        iterations: number of iterations in the traces.
    """
    longest = max((rank.seconds for rank in ranks), key=lambda seconds: sum(seconds.values()), default={})
    first = min(phases.values(), default=0)
    seconds_of: dict[int, float] = {}
    for operation, seconds in longest.items():
        phase = first if operation is None else phases.get(operation, first)
        seconds_of[phase] = seconds_of.get(phase, 0.0) + seconds / iterations
    return seconds_of
