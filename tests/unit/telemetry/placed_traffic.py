"""Traffic placed on the links of a fabric with its ports."""

from __future__ import annotations

from controller.model.fabric import Fabric


def with_ports(fabric: Fabric) -> dict[int, list[int]]:
    """Port numbers of every switch, by datapath id."""
    found: dict[int, list[int]] = {switch.dpid: [] for switch in fabric.switches}
    dpid = {switch.name: switch.dpid for switch in fabric.switches}
    for name, port in end_points(fabric):
        if port is not None:
            found[dpid[name]].append(port)
    return found


def end_points(fabric: Fabric) -> list[tuple[str, int | None]]:
    ends: list[tuple[str, int | None]] = [(host.leaf, host.port) for host in fabric.hosts]
    for cable in fabric.cables:
        ends += [(cable.lower, cable.lower_port), (cable.upper, cable.upper_port)]
    return ends


def place(fabric: Fabric, link: str) -> tuple[int, int, bool]:
    """Datapath id, port, and whether on receipt, of a link by its name alone."""
    src, dst = link.partition(":")[0].split("->")
    dpid = {switch.name: switch.dpid for switch in fabric.switches}
    for end, receives in ((src, True), (dst, False)):
        if end in fabric.host_index:
            host = fabric.hosts[fabric.host_index[end]]
            assert host.port is not None
            return dpid[host.leaf], host.port, receives
    between = [cable for cable in fabric.cables if {cable.lower, cable.upper} == {src, dst}]
    cable = between[int(link.partition(":")[2] or 0)]
    port = cable.lower_port if src == cable.lower else cable.upper_port
    assert port is not None
    return dpid[src], port, False
