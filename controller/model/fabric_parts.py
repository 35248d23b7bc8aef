"""The parts of a fabric: switches, hosts and cables. ``controller.model.fabric`` exports them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from controller.model.switch_key import SwitchKey

PLURALS = {"leaf": "leaves", "spine": "spines", "aggregation": "aggregation switches", "core": "cores"}
ROLES = {2: ("leaf", "spine"), 3: ("leaf", "aggregation", "core")}
"""What the switches of each layer are called, by the number of layers."""


SwitchKind = Literal["openflow", "router"]


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of any layer.

    ``key``: the datapath id by which a switch connects that speaks OpenFlow; the name of any other. ``locator``: the
    IPv6 prefix of its segment id (SRv6), as text; ``None``: it has the conventional one. ``addresses``: IP addresses
    from which it answers packets whose time to live has ended; empty: they are not known.
    """

    name: str
    key: SwitchKey
    locator: str | None = None
    # Not in ``repr``: they do not change what is planned, so fabrics keep their version.
    addresses: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def router(cls, name: str, locator: str | None = None, addresses: tuple[str, ...] = ()) -> Switch:
        """Return a switch that speaks no OpenFlow."""
        return cls(name, name, locator, addresses)

    @property
    def kind(self) -> SwitchKind:
        """What the switch speaks."""
        return "openflow" if isinstance(self.key, int) else "router"

    @property
    def dpid(self) -> int:
        """The OpenFlow datapath id.

        Raises:
            ValueError: the switch has none. What need not be OpenFlow uses ``key``.
        """
        if not isinstance(self.key, int):
            raise ValueError(f"{self.name} is not an OpenFlow switch")
        return self.key

    def __repr__(self) -> str:
        """Return a text in a third of the time of a dataclass's own: ``Fabric.version`` needs it of every part."""
        key = self.key
        kind = f"dpid={key!r}" if isinstance(key, int) else "kind='router'"
        # Without a locator as before this field existed, so that such fabrics keep their version.
        return f"Switch(name={self.name!r}, {kind}" + (f", locator={self.locator!r})" if self.locator else ")")


@dataclass(frozen=True, slots=True)
class Host:
    """One port of an RDMA NIC, with one IP address, of either version; usually the only one.

    ``port`` is the leaf's OpenFlow port (``None``: not known yet), ``interface`` what the leaf itself calls it
    (``None``: not said). ``nic`` is the name of the NIC where it has several
    ports, one in each plane (``controller.model.planes``).
    """

    name: str
    leaf: str
    gbps: float
    ip: str
    mac: str
    server: str
    rail: int = 0
    port: int | None = None
    up: bool = True
    # Not in ``repr``, so that fabrics without planes keep the version that they had before this field existed.
    nic: str | None = field(default=None, repr=False)
    interface: str | None = field(default=None, repr=False)

    @property
    def ip_version(self) -> Literal[4, 6]:
        """The version of its IP address."""
        return 6 if ":" in self.ip else 4

    def __repr__(self) -> str:
        """As that of ``Switch``."""
        return (
            f"Host(name={self.name!r}, leaf={self.leaf!r}, gbps={self.gbps!r}, ip={self.ip!r}, mac={self.mac!r}, "
            f"server={self.server!r}, rail={self.rail!r}, port={self.port!r}, up={self.up!r})"
        )


@dataclass(frozen=True, slots=True)
class Cable:
    """A cable between a switch and one of the layer above (two directed links).

    Ports are OpenFlow port numbers, ``None`` where not known yet. Interfaces are what the switches themselves call
    their ports, ``None`` where not said.
    """

    lower: str
    upper: str
    gbps: float
    up: bool = True
    lower_port: int | None = None
    upper_port: int | None = None
    lower_interface: str | None = field(default=None, repr=False)
    upper_interface: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """As that of ``Switch``."""
        return (
            f"Cable(lower={self.lower!r}, upper={self.upper!r}, gbps={self.gbps!r}, up={self.up!r}, "
            f"lower_port={self.lower_port!r}, upper_port={self.upper_port!r})"
        )


@dataclass(frozen=True)
class FabricParts:
    """The parts of a fabric, and their names.

    Attributes:
        layers: the switches of each layer, leaves first.
        hosts: the hosts.
        cables: the cables, each between one layer and the next.
    """

    layers: tuple[tuple[Switch, ...], ...]
    hosts: tuple[Host, ...]
    cables: tuple[Cable, ...]

    # -- names -----------------------------------------------------------------------------------------------

    @property
    def leaves(self) -> tuple[Switch, ...]:
        """The switches of the lowest layer, which have the hosts."""
        return self.layers[0]

    @property
    def spines(self) -> tuple[Switch, ...]:
        """The switches of the top layer: spines, or cores where there are three layers."""
        return self.layers[-1]

    @cached_property
    def switches(self) -> tuple[Switch, ...]:
        """All switches, layer by layer from the leaves up."""
        return tuple(switch for layer in self.layers for switch in layer)

    @property
    def roles(self) -> tuple[str, ...]:
        """What the switches of each layer are called."""
        return ROLES[len(self.layers)]

    @property
    def size_in_words(self) -> str:
        """The number of switches of each layer: ``4 leaves, 4 spines``."""
        return ", ".join(
            f"{len(layer)} {role if len(layer) == 1 else PLURALS[role]}"
            for role, layer in zip(self.roles, self.layers, strict=True)
        )

    @cached_property
    def layer_of(self) -> dict[str, int]:
        """The layer of each switch, by name: 0 for leaves."""
        return {switch.name: number for number, layer in enumerate(self.layers) for switch in layer}

    @cached_property
    def index_in_layer(self) -> dict[str, int]:
        """The index of each switch within its layer, by name."""
        return {switch.name: i for layer in self.layers for i, switch in enumerate(layer)}

    @cached_property
    def leaf_index(self) -> dict[str, int]:
        """The index of each leaf, by name."""
        return {leaf.name: i for i, leaf in enumerate(self.leaves)}

    @cached_property
    def spine_index(self) -> dict[str, int]:
        """The index of each switch of the top layer, by name."""
        return {spine.name: i for i, spine in enumerate(self.spines)}

    @cached_property
    def host_index(self) -> dict[str, int]:
        """The index of each host, by name, and of the first port of each NIC with several, by the NIC's name."""
        index: dict[str, int] = {}
        for i, host in enumerate(self.hosts):
            index.setdefault(host.nic or host.name, i)
            index[host.name] = i
        return index

    @cached_property
    def nic_names(self) -> tuple[str, ...]:
        """[N] names of the NICs, on which jobs run; those of the hosts where each NIC has one port."""
        return tuple(dict.fromkeys(host.nic or host.name for host in self.hosts))

    @cached_property
    def switch_by_key(self) -> dict[SwitchKey, Switch]:
        """The switch of each key."""
        return {switch.key: switch for switch in self.switches}

    @cached_property
    def datapath_ids(self) -> frozenset[int]:
        """The datapath ids of the switches that speak OpenFlow."""
        return frozenset(switch.dpid for switch in self.switches if switch.kind == "openflow")

    @cached_property
    def kind_of(self) -> dict[str, SwitchKind]:
        """The kind of each switch, by name."""
        return {switch.name: switch.kind for switch in self.switches}

    @cached_property
    def routers(self) -> tuple[Switch, ...]:
        """The switches that speak no OpenFlow, layer by layer."""
        return tuple(switch for switch in self.switches if switch.kind == "router")

    @cached_property
    def cable_names(self) -> tuple[str, ...]:
        """[C] names: ``leaf1-spine2``; the second cable between the same two is ``leaf1-spine2:1``, and so on."""
        return tuple(
            f"{cable.lower}-{cable.upper}" + (f":{number}" if number else "")
            for cable, number in zip(self.cables, self.cable_number.tolist(), strict=True)
        )

    @cached_property
    def link_ids(self) -> tuple[str, ...]:
        """The name of each directed link, by link index: ``h1->leaf1``, ``leaf1->spine2``, ``spine2->leaf1:1``."""
        ids = [f"{host.name}->{host.leaf}" for host in self.hosts]
        ids += [f"{host.leaf}->{host.name}" for host in self.hosts]
        for cable, number in zip(self.cables, self.cable_number.tolist(), strict=True):
            suffix = f":{number}" if number else ""
            ids.append(f"{cable.lower}->{cable.upper}{suffix}")
            ids.append(f"{cable.upper}->{cable.lower}{suffix}")
        return tuple(ids)

    @cached_property
    def links_by_name(self) -> NDArray[np.int32]:
        """[E] the indices of the directed links in the order of their names."""
        return np.array(sorted(range(len(self.link_ids)), key=self.link_ids.__getitem__), dtype=np.int32)

    @cached_property
    def link_index(self) -> dict[str, int]:
        """The index of each directed link, by link id."""
        return {name: i for i, name in enumerate(self.link_ids)}

    @cached_property
    def cable_number(self) -> NDArray[np.int32]:
        """[C] number of earlier cables between the same two switches."""
        seen: dict[tuple[str, str], int] = {}
        numbers = []
        for cable in self.cables:
            key = (cable.lower, cable.upper)
            numbers.append(seen.get(key, 0))
            seen[key] = numbers[-1] + 1
        return np.array(numbers, dtype=np.int32)
