"""UDP source ports as hosts choose them, of which no plan knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.model.fabric import Fabric
from controller.model.traffic import FIRST_PORT, LAST_PORT
from emulation.experiments.workload import ports_of
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import FlowKey, PortShare

_SEED = 3


def _one(spec: CollectiveSpec) -> int:
    del spec
    return 1


def own_ports(
    fabric: Fabric, specs: Sequence[CollectiveSpec], *, seed: int = _SEED, qps: Callable[[CollectiveSpec], int] = _one
) -> dict[FlowKey, tuple[PortShare, ...]]:
    """Return a UDP source port for each flow as hosts choose them: without a plan, and all different.

    Where NICs have several ports, a flow has a stripe for each, from a port to that with the same number.

    Args:
        fabric: the fabric.
        specs: the collectives.
        seed: another one gives other ports.
        qps: returns the number of QPs of each connection of a collective, whose bytes they share equally. NICs with
            several ports have one for each stripe.
    """
    several = ports_of(fabric)
    shares_of: dict[FlowKey, tuple[PortShare, ...]] = {}
    port = 2 * seed + 1  # odd: then the low bits of its powers differ for long
    for spec in specs:
        for a, b in spec.flows():
            pair = spec.ranks[a], spec.ranks[b]
            stripes = list(zip(*(several.get(nic, ("",)) for nic in pair), strict=True))
            if len(stripes) == 1:
                stripes *= qps(spec)
            shares: list[PortShare] = []
            for src, dst in stripes:
                port = port * 0x9E3779B1 % (1 << 32)
                number = FIRST_PORT + port % (LAST_PORT + 1 - FIRST_PORT)
                shares.append(PortShare(number, 1 / len(stripes), len(stripes) == 1, src, dst))
            shares_of[spec.job, spec.name, *pair] = tuple(shares)
    return shares_of
