"""Link rates: what a fabric says in Gbit/s, scaled to what two cores can carry, and the tc commands that enforce it."""

from __future__ import annotations

from collections.abc import Iterable

from controller.model.errors import InputError
from emulation.wiring import Wire

MAX_MBPS = 1000.0
"""Mininet ignores a rate above this, without failing; so it is refused here (mininet.link.TCIntf.bwParamMax)."""

BURST_BYTES = 15_000
QUANTUM_BYTES = 9_000
"""HTB would otherwise derive it from the rate and complain that it is big; one class has nobody to share with."""


def emulated_mbps(wires: Iterable[Wire], mbps_per_gbps: float) -> dict[str, float]:
    """The rate of each wire, by its name, in Mbit/s.

    Raises:
        InputError: a scale that is not positive, or a rate that would not be enforced.
    """
    if not mbps_per_gbps > 0:
        raise InputError("a positive number is needed", field="mbps_per_gbps", value=mbps_per_gbps)
    rates = {}
    for wire in wires:
        rate = wire.gbps * mbps_per_gbps
        if not rate <= MAX_MBPS:
            raise InputError(
                f"{wire.name} would have {rate:g} Mbit/s, and rates above {MAX_MBPS:g} are not enforced",
                field="mbps_per_gbps",
                value=mbps_per_gbps,
            )
        rates[wire.name] = rate
    return rates


def tc_commands(interface: str, mbps: float) -> list[str]:
    """Lines for ``tc -batch`` that hold an interface's sending to a rate. Its old root discipline is replaced."""
    rate = f"{mbps * 1e6:.0f}bit"
    limits = f"rate {rate} burst {BURST_BYTES}b quantum {QUANTUM_BYTES}"
    return [
        f"qdisc replace dev {interface} root handle 5: htb default 1",
        f"class replace dev {interface} parent 5: classid 5:1 htb {limits}",
    ]
