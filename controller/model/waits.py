"""What the collectives of a job wait for within their phase (docs/explanation/objective.md, "Overlap")."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waits:
    """What a collective waits for within its phase.

    Attributes:
        computing: whether it begins after the computing of its phase; else it begins with it.
        after: names of collectives of its job that end before it begins.
    """

    computing: bool = True
    after: tuple[str, ...] = ()


FOR_COMPUTING = Waits()
"""The default: a collective waits for the computing of its phase, and for no other collective of the phase."""


def waits_among(waits: Mapping[str, Waits], phase: Mapping[str, int], kept: Collection[str]) -> dict[str, Waits]:
    """Return what each of some collectives of a job waits for in its phase if the others take no time.

    A collective that waits for one of the others waits for what that one waits for. Default values are left out, and
    so are collectives of earlier phases, which have ended anyway.

    Args:
        waits: of the collectives by name; without default values.
        phase: by name; 0 where a name is missing.
        kept: the names of the collectives that take time.
    """

    def resolved(name: str) -> Waits:
        own = waits.get(name, FOR_COMPUTING)
        computing, after = own.computing, list[str]()
        for other in own.after:
            if phase.get(other, 0) != phase.get(name, 0):
                continue
            if other in kept:
                after.append(other)
            else:
                inherited = resolved(other)
                computing |= inherited.computing
                after += inherited.after
        return Waits(computing, tuple(dict.fromkeys(after)))

    return {name: own for name in kept if name in waits and (own := resolved(name)) != FOR_COMPUTING}
