"""The true state of the emulation, with failures and settings, which the controller has to find out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.model.fabric import Fabric
from emulation.pings import Pair


@dataclass(frozen=True)
class ExpectedPiece:
    """A flow, or a piece of one, from a host's routes.

    Attributes:
        links: links from host to host; two within a leaf, else four or six; none if switches hash it.
        udp_src: UDP source port; ``None``: any.
    """

    flow: str
    src: str
    dst: str
    udp_src: int | None
    links: tuple[str, ...]


@dataclass
class FaultState:
    """The state that faults change.

    Attributes:
        healthy: the fabric without failures, with every port number.
        down: cables and host links that are down, by name.
        off: switches without power.
        drained: ids that were drained through the API.
        jobs: documents by name.
        ecmp_action: the option of the controller of the same name, for the spreading of traffic without a plan.
        routes: the hosts' routes when everything was last found right.
        settled: whether nothing has happened since everything was last found right.
        drifts: rules that were changed behind the controller's back so far.
        frozen: the state when the mode became ``frozen``, which the rules of switches follow.
    """

    healthy: Fabric
    down: set[str] = field(default_factory=set)
    off: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    jobs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    mode: str = "planned"
    enforcement: str = DEFAULT_ENFORCEMENT
    ecmp_action: str = "bundle"
    routes: tuple[ExpectedPiece, ...] = ()
    settled: bool = False
    drifts: int = 0
    frozen: FaultState | None = None

    def copy(self) -> FaultState:
        """Return the same state, which later faults do not change."""
        copies = {"down": set(self.down), "off": set(self.off), "drained": set(self.drained), "jobs": dict(self.jobs)}
        return replace(self, **copies)  # type: ignore[arg-type]

    @property
    def fabric(self) -> Fabric:
        """The fabric in its present state.

        Hosts of a dead leaf keep their links, which cannot be observed, but those of NICs that have other ports do not.
        """
        dead = {
            name
            for name, cable in zip(self.healthy.cable_names, self.healthy.cables, strict=True)
            if not self.off.isdisjoint((cable.lower, cable.upper))
        }
        if self.healthy.planes.count > 1:
            dead |= {f"{host.name}-{host.leaf}" for host in self.healthy.hosts if host.leaf in self.off}
        return self.healthy.without_links(self.down | dead)

    @property
    def switches(self) -> list[str]:
        """Names of the switches with power."""
        return [s.name for s in self.healthy.switches if s.name not in self.off]

    @property
    def reachable(self) -> list[Pair]:
        """The ordered pairs of hosts between which the graph has a way."""
        fabric = self.fabric
        alive = [
            (host.name, leaf)
            for host, leaf in zip(fabric.hosts, fabric.host_leaf.tolist(), strict=True)
            if host.up and host.leaf not in self.off
        ]
        return [
            (a, b)
            for a, leaf in alive
            for b, other in alive
            if a != b and (leaf == other or len(fabric.live_paths(leaf, other)))
        ]

    def __str__(self) -> str:
        """Return the failures, jobs and settings in one line."""
        parts = [
            ("down", sorted(self.down)),
            ("off", sorted(self.off)),
            ("drained", sorted(self.drained)),
            ("jobs", sorted(self.jobs)),
        ]
        said = [f"{what}: {', '.join(names)}" for what, names in parts if names]
        return "; ".join([*said, f"{self.mode}, {self.enforcement}"])
