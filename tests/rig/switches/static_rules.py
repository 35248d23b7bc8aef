"""Forwarding without a controller: ovs-ofctl installs the port of each host on each switch."""

from __future__ import annotations

from controller.model.fabric import Fabric
from emulation.lab import Lab


def next_hops(fabric: Fabric) -> dict[str, dict[str, int]]:
    """[switch][host] the port; towards other leaves by the first live path."""
    hops: dict[str, dict[str, int]] = {switch.name: {} for switch in fabric.switches}
    for index, host in enumerate(fabric.hosts):
        leaf = int(fabric.host_leaf[index])
        assert host.port is not None
        hops[host.leaf][host.name] = host.port
        for other in range(fabric.n_leaves):
            if other == leaf:
                continue
            path = int(fabric.live_paths(other, leaf)[0])
            up = fabric.cables[(int(fabric.up_link[other, path]) - fabric.first_cable_link) // 2]
            down = fabric.cables[(int(fabric.down_link[leaf, path]) - fabric.first_cable_link) // 2]
            assert up.lower_port is not None
            assert down.upper_port is not None
            hops[up.lower][host.name] = up.lower_port
            hops[down.upper][host.name] = down.upper_port
    return hops


def install(lab: Lab, fabric: Fabric) -> None:
    """Replace the rules of every switch by these."""
    address = {host.name: host.ip for host in fabric.hosts}
    for switch, hops in next_hops(fabric).items():
        rules = "".join(
            f"arp,arp_tpa={address[host]} actions=output:{port}\nip,nw_dst={address[host]} actions=output:{port}\n"
            for host, port in hops.items()
        )
        file = lab.out / f"{switch}.rules"
        file.write_text(rules)
        lab.ofctl("replace-flows", switch, str(file))
