"""What an experiment needs of a network, whatever its switches are.

An experiment crosses this border with fabrics, draws and bytes, and gets back documents and counts:

| it needs | with OpenFlow switches | with routers |
|---|---|---|
| hosts: programs in their namespaces, addresses, pings | ``BaseLab`` | the same |
| links with rates | HTB on both ends | the same |
| that traffic follows a draw (``applied``) | a controller installs rules | a controller and agents of hosts, or ECMP |
| the documents of ``GET /v1/plan`` and ``/v1/routes`` | of the controller | the same, or of the kernels' hashes |
| that switches hash whatever hosts send (``hashed``) | a controller without jobs | their kernels |
| that jobs are learned and planned (``learning``) | a controller without jobs | the same, and agents |
| what links have sent (``sent``) | ports | interfaces |
| what flows and links have sent (``counting``) | rules, groups and ports | sets of nftables, and interfaces |

The discovered cabling, connections of switches, rules and groups, flow caches, sFlow of switches, and buffers of one
daemon for all of them are Open vSwitch's alone (``openflow_network``, ``hedera``, ``learned``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from controller.model.fabric import Fabric
from emulation.errors import LabError
from emulation.experiments.control import ExperimentController
from emulation.experiments.evidence import Evidence
from emulation.experiments.request import Draw, EmulatedScenario
from emulation.experiments.workload import ports_of, ways_of_pieces
from emulation.lab.base import BaseLab
from emulation.roce.run import Follow, PieceWay

Payload = Mapping[tuple[str, str, int | None], int]
"""Bytes that each unit of a plan certainly sends: (source, destination, UDP source port or None for any)."""


@dataclass(frozen=True)
class FollowedPlan:
    """A plan that the network follows.

    Attributes:
        plan: the document, as of ``GET /v1/plan``.
        routes_of: by host, the answer of ``GET /v1/routes``.
        follow: says where the plan moves flows later; ``None``: it moves none.
    """

    plan: dict[str, Any]
    routes_of: Mapping[str, Mapping[str, Any]]
    follow: Follow | None = None


class Counting(Protocol):
    """Counters that were read before the jobs send."""

    def evidence(self, payload: Payload, *, retransmissions: int) -> Evidence:
        """Read them again, and compare what was sent with the plan."""


class ExperimentNetwork(ABC):
    """A running lab and what makes its traffic follow plans; use it in a ``with`` statement.

    Attributes:
        lab: the hosts and links.
        added_bytes: what the network adds to each packet between hosts and leaves.
    """

    lab: BaseLab
    added_bytes = 0

    def __enter__(self) -> ExperimentNetwork:
        """Start the lab."""
        self.lab.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the lab."""
        self.lab.stop()

    @abstractmethod
    def applied(self, draw: Draw) -> AbstractContextManager[FollowedPlan]:
        """Return a context in which the jobs' traffic follows a draw, and hosts that communicate reach each other."""

    @abstractmethod
    def hashed(self, draw: Draw) -> AbstractContextManager[None]:
        """Return a context in which no job is pushed, and switches hash every connection by its 5-tuple.

        ``draw``: its policy is that of the controller, where switches need one to forward; its seed that of the hash.
        """

    @abstractmethod
    def learning(self, draw: Draw) -> AbstractContextManager[ExperimentController]:
        """Return a context in which no job is pushed, and the controller plans by a draw what it is shown."""

    @abstractmethod
    def sent(self) -> dict[str, int]:
        """Return how many bytes switches have sent over each cable, by the name of the directed link."""

    @abstractmethod
    def counting(self, applied: FollowedPlan) -> Counting:
        """Read the counters before the jobs of a plan send."""


def switches_in_words(fabric: Fabric) -> str:
    """Return what the switches of a fabric are in the lab."""
    return "Linux routers" if fabric.routers else "Open vSwitch"


def check_reachable(lab: BaseLab, scenario: EmulatedScenario) -> None:
    """Check that hosts that communicate reach each other, and prepare the switches for their traffic.

    Raises:
        LabError: some do not.
    """
    lost = lab.ping_all(_neighbours(scenario))
    if lost:
        raise LabError(f"{len(lost)} pairs of hosts cannot reach each other; the first is {' and '.join(lost[0])}")
    # Only now has every switch sent something.
    lab.prepare_for_load()


class PlanSource(Protocol):
    """A source of plans: the controller of an experiment."""

    def active_epoch(self) -> int:
        """Return the epoch of the plan that every switch has confirmed last."""
        ...

    def routes(self, host: str) -> Mapping[str, Any]:
        """Return the routes of a host."""
        ...


def following(controller: PlanSource, fabric: Fabric, mbps_per_gbps: float | None = None) -> Follow | None:
    """Return what tells queue pairs how the plan changes their flows; ``None`` where they follow nothing.

    A flow has other ends only where NICs have several ports: its stripes go to other planes if theirs fails.
    ``mbps_per_gbps``: as for ``routes``; paces change with each plan.
    """
    if not ports_of(fabric) and mbps_per_gbps is None:
        return None
    known: dict[str, PieceWay] = {}
    epochs: list[int] = []

    def changes() -> dict[str, PieceWay]:
        epoch = controller.active_epoch()
        if epochs and epoch == epochs[-1]:
            return {}
        now = ways_of_pieces(fabric, {host.name: controller.routes(host.name) for host in fabric.hosts}, mbps_per_gbps)
        changed = {name: way for name, way in now.items() if known.get(name) != way}
        known.update(changed)
        epochs.append(epoch)
        return changed

    return changes


def _neighbours(scenario: EmulatedScenario) -> list[tuple[str, str]]:
    """Return the communicating pairs of hosts in both directions, whose addresses are resolved beforehand."""
    hosts = [host.name for host in scenario.fabric.hosts]
    ends = zip(scenario.traffic.src.tolist(), scenario.traffic.dst.tolist(), strict=True)
    pairs = {(hosts[a], hosts[b]) for a, b in ends}
    return sorted(pairs | {(b, a) for a, b in pairs})
