"""What is kept, as values: what the controller hands to its store and gets back after a restart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array


@dataclass(frozen=True, eq=False)
class KeptJob:
    """A job as it was taken.

    Attributes:
        position: place among the jobs; ``Kept.jobs`` is sorted by it. Ports are given out in this order.
        document: as pushed.
        udp_src: [F] UDP source ports of its flows, in the order of ``JobTraffic``.
        revision: its entity tag.
        changed: when it was pushed, seconds since 1970.
        by: name of the token that pushed it.
    """

    name: str
    position: int
    document: bytes
    udp_src: IntArray
    revision: str
    changed: float
    by: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "udp_src", np.require(self.udp_src, np.int32, ["C"]))


@dataclass(frozen=True)
class KeptMode:
    """How plans are enforced, since when (seconds since 1970), and who said so last.

    Attributes:
        mode: ``planned``, ``ecmp``, ``frozen``.
        enforcement: ``per_flow``, ``segment_routing``, ``source_port``; ``None``: nobody has ever said.
        option: what the option of that name was when somebody said it; ``None`` with ``enforcement``.
    """

    mode: str
    changed: float
    by: str
    enforcement: str | None = None
    option: str | None = None


@dataclass(frozen=True, eq=False)
class KeptPaths:
    """The paths of a plan: the content of ``controller.routing.Previous``, field by field.

    Attributes:
        hosts, paths: names by the numbers used in the rows.
        key: [R] ``src << 40 | dst << 16 | udp_src``, ascending.
        path: [R] path class.
        share: [R] part of the bytes.
    """

    hosts: tuple[str, ...]
    paths: tuple[str, ...]
    key: Int64Array
    path: IntArray
    share: FloatArray

    def __post_init__(self) -> None:
        for name, dtype in (("key", np.int64), ("path", np.int32), ("share", np.float64)):
            object.__setattr__(self, name, np.require(getattr(self, name), dtype, ["C"]))
        if not len(self.key) == len(self.path) == len(self.share):
            raise ValueError("a row of paths has a key, a path and a share")


@dataclass(frozen=True)
class PlanRecord:
    """A plan that was made: what it was made from, what it came to, and why. No number in it is NaN.

    Attributes:
        epoch: its number; larger is newer.
        at: when, seconds since 1970.
        cause: what brought it about, for people.
        by: the token whose request it was; ``None``: the network was the cause.
        fabric_version, traffic_version: hashes of what it was made from, as their maker defines them.
        links_down: directed links or cables that were down; drained: ids that were drained; jobs: names, in order.
        seconds: the policy's own time.
        moved: flows that were there before and got another path.
        rollback_of: the epoch whose paths it took up again.
        paths: ``None`` where there are none, and in lists of plans.
        enforcement: by which kind of rules switches followed it, where the mode lets them.
    """

    epoch: int
    at: float
    cause: str
    by: str | None
    policy: str
    seed: int
    mode: str
    fabric_version: str
    traffic_version: str
    links_down: tuple[str, ...]
    drained: tuple[str, ...]
    jobs: tuple[str, ...]
    min_speed: float
    min_level: float
    bound_split: float | None
    bound_single: float | None
    gap: float | None
    seconds: float
    flows: int
    moved: int
    unroutable: int
    rollback_of: int | None = None
    paths: KeptPaths | None = None
    enforcement: str = "per_flow"


@dataclass(frozen=True)
class Change:
    """What one transaction writes: all of it or nothing.

    Attributes:
        put: jobs that are new or replace the ones of their names; ``deleted``: names, gone or never there.
        drained: everything that is drained from now on; ``None``: as before.
        mode: ``None``: as before.
        plans: records to add, in any order (several after a time without the store); one of a known epoch replaces it.
    """

    put: tuple[KeptJob, ...] = ()
    deleted: tuple[str, ...] = ()
    drained: frozenset[str] | None = None
    mode: KeptMode | None = None
    plans: tuple[PlanRecord, ...] = ()


@dataclass(frozen=True)
class Kept:
    """Everything that a controller needs to go on where the last one ended.

    Attributes:
        jobs: by position.
        mode: ``None``: nobody has ever said.
        plan: the newest, with its paths.
    """

    jobs: tuple[KeptJob, ...] = ()
    drained: frozenset[str] = frozenset()
    mode: KeptMode | None = None
    plan: PlanRecord | None = None

    @property
    def epoch(self) -> int:
        """The newest plan's; 0 before the first."""
        return 0 if self.plan is None else self.plan.epoch
