"""The order of the collectives of a job and of its computing (docs/explanation/objective.md, "Overlap")."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Waits:
    """When a collective may begin within its phase, and which phase ends only after it.

    Attributes:
        computing: whether it begins after the computing of its phase; else it begins with it.
        after: names of collectives of its job that end before it begins.
        until: the phase that ends only when it has ended, a later one than its own; ``None``: its own.
    """

    computing: bool = True
    after: tuple[str, ...] = ()
    # Not in ``repr``, so that traffic without it keeps the version that it had before this field existed.
    until: int | None = field(default=None, repr=False)


FOR_COMPUTING = Waits()
"""The default: a collective waits for the computing of its phase, and for no other collective of the phase."""


def waits_among(waits: Mapping[str, Waits], phase: Mapping[str, int], kept: Collection[str]) -> dict[str, Waits]:
    """Return what each of some collectives of a job waits for in its phase if the others take no time.

    A collective that waits for one of the others waits for what that one waits for. Default values are left out, and
    so are collectives which have ended anyway, as an earlier phase has waited for them.

    Args:
        waits: of the collectives by name; without default values.
        phase: by name; 0 where a name is missing.
        kept: the names of the collectives that take time.
    """

    def due(name: str) -> int:
        until, own = waits.get(name, FOR_COMPUTING).until, phase.get(name, 0)
        return own if until is None else max(own, until)

    def resolved(name: str, at: int) -> tuple[bool, list[str]]:
        """Return what a collective waits for that can still be under way when phase ``at`` begins."""
        own = waits.get(name, FOR_COMPUTING)
        computing, after = own.computing and phase.get(name, 0) == at, list[str]()
        for other in own.after:
            if due(other) < at:
                continue
            if other in kept:
                after.append(other)
            else:
                inherited = resolved(other, at)
                computing |= inherited[0]
                after += inherited[1]
        return computing, after

    phases = sorted({phase.get(name, 0) for name in kept})
    among = {}
    for name in kept:
        if name in waits:
            computing, after = resolved(name, phase.get(name, 0))
            # Of the phases that are left, the last one until which it may take.
            last = phases[bisect.bisect_right(phases, due(name)) - 1]
            until = last if last > phase.get(name, 0) else None
            own = Waits(computing, tuple(dict.fromkeys(after)), until)
            if own != FOR_COMPUTING:
                among[name] = own
    return among
