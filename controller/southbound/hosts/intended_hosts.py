"""The ports at which the fabric file allows each host. Addresses are with their zones (``model.zones``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from controller.model.fabric import Fabric, Host
from controller.model.network_state import PortId, port_ids
from controller.model.switch_key import SwitchKey
from controller.model.texts.zones import same_zone, zone_of_leaves, zoned, zoned_addresses


@dataclass(frozen=True)
class IntendedHosts:
    """The hosts of the fabric file, by IPv4 address.

    Attributes:
        zones: the zone of the addresses on each leaf, by its key.
        ports: the port of each host whose port the file names.
        leaves: the key of the leaf of each host of which the file names no more than the leaf.
        fabric: of the file; ``None``: without cables.
    """

    hosts: dict[str, Host] = field(default_factory=dict)
    ports: dict[str, PortId] = field(default_factory=dict)
    leaves: dict[str, SwitchKey] = field(default_factory=dict)
    zones: dict[SwitchKey, int] = field(default_factory=dict)
    fabric: Fabric | None = None

    @classmethod
    def of(cls, fabric: Fabric) -> IntendedHosts:
        """Return the hosts of a fabric file."""
        key = {switch.name: switch.key for switch in fabric.switches}
        hosts = dict(zip(zoned_addresses(fabric), fabric.hosts, strict=True))
        placed = [ip for ip, h in hosts.items() if h.port is not None]
        ports = port_ids([key[hosts[ip].leaf] for ip in placed], [hosts[ip].port or 0 for ip in placed])
        return cls(
            hosts,
            dict(zip(placed, ports, strict=True)),
            {ip: key[h.leaf] for ip, h in hosts.items() if h.port is None},
            {leaf.key: zone for leaf, zone in zip(fabric.leaves, zone_of_leaves(fabric), strict=True)},
            fabric,
        )

    @cached_property
    def closed(self) -> frozenset[PortId]:
        """The ports that belong to a host or a cable by the file: no other host may be placed there."""
        key = {} if self.fabric is None else {switch.name: switch.key for switch in self.fabric.switches}
        cables = () if self.fabric is None else self.fabric.cables
        ends = [(c.lower, c.lower_port) for c in cables] + [(c.upper, c.upper_port) for c in cables]
        return frozenset(self.ports.values()) | {PortId(key[name], port) for name, port in ends if port is not None}

    @cached_property
    def by_mac(self) -> dict[str, str]:
        """The IPv4 address of the host that has a MAC address, which is with the zone of its address."""
        return {same_zone(ip, host.mac): ip for ip, host in self.hosts.items()}

    def zoned(self, ip: str, key: SwitchKey) -> str:
        """Return the address of a host on a switch with its zone."""
        return zoned(ip, self.zones.get(key, 0))

    @cached_property
    def _servers(self) -> dict[PortId, str]:
        return {at: self.hosts[ip].server for ip, at in self.ports.items()}

    def allows(self, ip: str, at: PortId) -> bool:
        """Return whether a host may be placed at a port."""
        if ip in self.ports:
            return self.ports[ip] == at
        return self.leaves.get(ip) == at.switch and at not in self.closed

    def same_server(self, ip: str, at: PortId) -> bool:
        """Return whether a port belongs to the server of a host.

        Linux answers for all addresses of a server on each of its NICs (unless ``arp_ignore`` is set).
        """
        host = self.hosts.get(ip)
        return host is not None and self._servers.get(at) == host.server
