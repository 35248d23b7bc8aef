"""The outputs of switches, which need a queue for each class of priority."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from controller.model.fabric import Fabric
from controller.southbound.srv6.router_configuration import InterfaceName, link_ends


@dataclass(frozen=True)
class QueuedOutput:
    """An interface of a switch, and the rate of its link, whether that is up or not."""

    interface: str
    gbps: float


@dataclass(frozen=True)
class SwitchOutputs:
    """The interfaces of a switch to hosts and to other switches."""

    switch: str
    outputs: tuple[QueuedOutput, ...]


def switch_outputs(fabric: Fabric, interface: InterfaceName) -> tuple[SwitchOutputs, ...]:
    """Return the outputs of all switches that have any, layer by layer.

    Raises:
        InputError: neither interface nor port of a link is known.
    """
    rates = [host.gbps for host in fabric.hosts] + [each.gbps for each in fabric.cables]
    of_switch: dict[str, list[QueuedOutput]] = defaultdict(list)
    for link, (switch, name) in sorted(link_ends(fabric, interface).items()):
        below = link < fabric.first_cable_link
        number = link - fabric.n_hosts if below else fabric.n_hosts + (link - fabric.first_cable_link) // 2
        of_switch[switch].append(QueuedOutput(name, rates[number]))
    return tuple(
        SwitchOutputs(each.name, tuple(of_switch[each.name])) for each in fabric.switches if each.name in of_switch
    )
