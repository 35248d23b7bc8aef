"""How much hosts may probe: the options of the controller about probes, and how often they check what they know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from controller.model.fabric import Fabric
from controller.southbound.enforcement.base import OptionValues
from controller.southbound.probed_ports.probe_routes import ProbeRoute, probe_route
from controller.southbound.probed_ports.probe_tasks import ProbeBudget

BURST, RATE, ROUTER_RATE, SECONDS = "probe_burst", "probe_rate", "probe_router_rate", "probe_seconds"
LAST_LEAF = "probe_last_leaf"
SAMPLED_RATE, LISTEN = "probe_sampled_rate", "sflow_listen"
PROBE_OPTIONS = (BURST, RATE, ROUTER_RATE, SECONDS, LAST_LEAF, SAMPLED_RATE, LISTEN)

STEADY_SHARE = 0.01
"""Of the answers that a router gives in a second, those for checks of ports that are in use."""


class CheckedPath(NamedTuple):
    """A path that a host is asked about: the sending and the receiving host, and its number."""

    src: int
    dst: int
    path: int


class ProbeLimits(NamedTuple):
    """What probes of each host cost at most.

    Attributes:
        budget: of each router.
        check_seconds: between two checks of a port.
        last_leaf: as of ``probe_route``.
        sampled: packets a second that may be sent to be sampled; 0: none.
    """

    budget: ProbeBudget
    check_seconds: float
    last_leaf: bool
    sampled: float

    @property
    def samples(self) -> dict[str, Any] | None:
        """What the document of a host says of samples."""
        return {"a_second": self.sampled} if self.sampled else None


def to_last_leaf(options: OptionValues) -> bool:
    """Return whether probes are to show that packets are at the receiver's leaf when they should be."""
    return bool(options.get(LAST_LEAF, "off") == "on")


def probe_limits(fabric: Fabric, options: OptionValues, paths: Iterable[CheckedPath], n_hosts: int) -> ProbeLimits:
    """Return the limits.

    Args:
        fabric: one that ``check_probes`` accepts.
        options: of the controller.
        paths: of all flows that are checked.
        n_hosts: hosts that may all search at the same time.
    """
    per_router, last_leaf = float(options.get(ROUTER_RATE, 100.0)), to_last_leaf(options)
    budget = ProbeBudget(int(options.get(BURST, 6)), float(options.get(RATE, 1.0)), per_router / max(n_hosts, 1))
    answers: Counter[str] = Counter()
    routes: dict[tuple[int, int], ProbeRoute] = {}
    for src, dst, path in paths:
        leaves = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
        if leaves not in routes:
            routes[leaves] = probe_route(fabric, *leaves, last_leaf=last_leaf)
        route = routes[leaves]
        answers.update(each.name for each in route.routers[route.paths.index(path)])
    steady = max(answers.values(), default=0) / (STEADY_SHARE * per_router)
    sampled = float(options.get(SAMPLED_RATE, 0.0)) if options.get(LISTEN) else 0.0
    return ProbeLimits(budget, max(float(options.get(SECONDS, 10.0)), steady), last_leaf, sampled)
