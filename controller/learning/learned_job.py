"""A learned job: what was seen of a job's communication, as a value and as a job document."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from controller.learning.sightings import QpKey
from controller.learning.volumes import SNAP
from controller.model.choices.protocol import ROCE, Protocol
from controller.model.traffic import ANY_PORT

Shape = Literal["ring", "direct", "flows"]


@dataclass(frozen=True)
class LearnedGroup:
    """QPs that send at the same time and belong together.

    Attributes:
        phase: groups of different phases do not send at once.
        shape: ``ring`` if each host sends to one other and receives from one; ``direct`` if each sends to each;
            ``flows`` otherwise.
        qps: in order of their keys.
        bytes: of each QP in an iteration.
    """

    phase: int
    shape: Shape
    qps: tuple[QpKey, ...]
    bytes: tuple[int, ...]


class LearnedPhase(NamedTuple):
    """When a phase sends, in seconds from the begin of its iteration."""

    begin: float
    end: float


@dataclass(frozen=True)
class LearnedJob:
    """The communication of hosts that are connected by QPs, all of one protocol.

    Attributes:
        period_seconds: of an iteration; 0 where none shows: the volumes then are those of a second.
        iterations: number of iterations seen.
        groups: in order of phases.
        compute_seconds: before each phase.
        confidence: between 0 and 1: the part of the QPs whose bytes are known, less if fewer than three iterations were
            seen, or if their bytes vary (of the median QP, by its standard deviation as a part of the bytes).
        begun: seconds at which the last iteration that was seen began; the next ones follow by the period.
        seen: seconds of the newest sighting.
        phases: when each phase sends; empty where no period shows.
        is_counted: whether its iterations are told by equal bytes between pauses (``counted_iterations``).
        is_single: whether values of counters show that it has the bytes of one iteration (``equal_bytes``).
    """

    period_seconds: float
    iterations: int
    groups: tuple[LearnedGroup, ...]
    compute_seconds: tuple[float, ...]
    confidence: float
    begun: float
    seen: float
    phases: tuple[LearnedPhase, ...] = ()
    is_counted: bool = False
    is_single: bool = False

    @cached_property
    def name(self) -> str:
        """The name, which depends only on who sends to whom: which phase comes first may be told otherwise later."""
        edges = sorted({(key.src, key.dst) for group in self.groups for key in group.qps})
        named = repr(edges) + ("" if self.protocol == ROCE else self.protocol)
        return "learned-" + hashlib.blake2b(named.encode(), digest_size=4).hexdigest()

    @property
    def protocol(self) -> Protocol:
        """The protocol of its packets."""
        return self.groups[0].qps[0].protocol

    @property
    def qps(self) -> frozenset[QpKey]:
        """All QPs."""
        return frozenset(key for group in self.groups for key in group.qps)

    @property
    def volumes(self) -> dict[tuple[int, QpKey], int]:
        """Bytes of each QP in an iteration, by phase and QP."""
        return {
            (group.phase, key): size for group in self.groups for key, size in zip(group.qps, group.bytes, strict=True)
        }

    def has_volumes_of(self, other: LearnedJob) -> bool:
        """Return whether the same QPs send as much in the same phases, as far as volumes can be told apart."""
        before, after = self.volumes, other.volumes
        return before.keys() == after.keys() and all(
            abs(after[at] - size) <= SNAP * size for at, size in before.items()
        )

    @property
    def grouping(self) -> frozenset[tuple[int, tuple[QpKey, ...]]]:
        """Which QPs are one group: the phase and the QPs of each."""
        return frozenset((group.phase, group.qps) for group in self.groups)

    def is_like(self, other: LearnedJob) -> bool:
        """Return whether it has the volumes of another one, in the same groups."""
        return self.has_volumes_of(other) and self.grouping == other.grouping

    def document(self, host_of: Callable[[int], str | None], *, states_ports: bool = True) -> dict[str, Any]:
        """Return the job document.

        QPs of the same hosts and source port are one flow: switches cannot tell them apart. If a feeder did not know
        the port of a QP, the ports of the job are unknown, and hosts alone tell its flows apart; so it is with TCP.

        Args:
            host_of: returns the host with an address, ``None`` if there is none.
            states_ports: whether flows have the ports that are known; else, others are to be chosen for them.
        """
        ports_known = self.protocol == ROCE and all(key.udp_src != ANY_PORT for key in self.qps)
        flows: dict[tuple[str, str, int], dict[str, Any]] = {}
        phases: dict[str, int] = {}
        for number, group in enumerate(self.groups):
            name = f"{group.shape}{number}"
            for key, size in zip(group.qps, group.bytes, strict=True):
                src, dst = host_of(key.src), host_of(key.dst)
                if src is None or dst is None:
                    continue
                port = key.udp_src if ports_known else ANY_PORT
                known = flows.get((src, dst, port))
                if known is not None:
                    known["bytes"] += size
                    continue
                flow = {"src": src, "dst": dst, "bytes": size, "collective": name}
                flows[src, dst, port] = flow | ({"udp_src": port} if ports_known and states_ports else {})
                phases[name] = group.phase
        document: dict[str, Any] = {"name": self.name, "flows": list(flows.values()), "phases": phases}
        if self.protocol != ROCE:
            document["protocol"] = self.protocol
        if not ports_known:
            document["ports"] = "unknown"
        if self.period_seconds and any(self.compute_seconds):
            document["compute_seconds"] = {
                str(phase): round(seconds, 6)
                for phase, seconds in enumerate(self.compute_seconds)
                if seconds > 0 and phase in phases.values()
            }
        return document
