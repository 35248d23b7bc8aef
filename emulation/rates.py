"""Link rates: a fabric's Gbit/s scaled to rates that two cores can carry, and the tc commands that enforce them."""

from __future__ import annotations

from collections.abc import Iterable

from controller.model.errors import InputError
from emulation.wiring import LabCable

MAX_MBPS = 1000.0
"""Mininet ignores a rate above this, without failing; so it is refused here (mininet.link.TCIntf.bwParamMax)."""

BURST_BYTES = 15_000
QUANTUM_BYTES = 9_000
"""Quantum of HTB, set to avoid its warning about a large derived value; it does not matter with a single class."""


def emulated_mbps(wires: Iterable[LabCable], mbps_per_gbps: float) -> dict[str, float]:
    """Return the rate of each wire in Mbit/s, by its name.

    Raises:
        InputError: the scale is not positive, or a rate is too high to be enforced.
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
