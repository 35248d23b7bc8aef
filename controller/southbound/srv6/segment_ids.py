"""Micro segment ids (RFC 9800, NEXT-CSID): which 16-bit id stands for which router, cable and host.

An address of a packet is a *carrier*: the block, then the ids of what the packet still has to pass. The router that the
first id names removes it, moves the others up, and looks up the address that results.

Ids are places in the Fabric, so they last as long as its switches do, and those of one kind begin alike. So a router
has one entry for *any* router of a layer, behind that of each of its neighbours, and passes over a neighbour to which
no cable leads any more.

    0x0000 to 0x7fff    leaves
    0x8000 to 0xbfff    aggregation switches
    0xc000 to 0xdfff    spines or cores
    0xe000 to 0xefff    hosts of a leaf, which give IPv4 packets out of the carrier; only their own leaf knows them
    0xf000 to 0xffff    the same for IPv6 packets

Where two switches have several cables, each of them has as many ids as there are cables to it from one other, side by
side: the n-th id means that switch over the n-th cable. So a path takes one id a switch, whatever the cables.

A fabric file may give each switch another id, by its locator. Then a switch has one id, so parallel cables cannot be
told apart, and an entry for a layer is one for each of its switches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv6Address, IPv6Network

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.locators import BLOCK_BITS, FIRST_LOCAL_ID, ID_BITS, block_of, id_of

ADDRESS_BITS = 128

DEFAULT_BLOCK = IPv6Network("fcbb:bb00::/32")
"""Of the addresses that RFC 4193 leaves to sites, as in the examples of most vendors."""

IPV4_HOSTS, IPV6_HOSTS = FIRST_LOCAL_ID, 0xF000
HOSTS_OF_A_LEAF = 0x0FFF


def network(field: str, text: str) -> IPv6Network:
    """Return the addresses that a text names.

    Raises:
        InputError: it names none; the error has this field.
    """
    try:
        return IPv6Network(text)
    except ValueError as error:
        raise InputError(f"is not an IPv6 prefix ({error})", field=field, value=text) from None


@dataclass(frozen=True)
class IdRange:
    """All ids that begin with the same bits: ``first`` is the lowest one, ``bits`` how many bits are fixed."""

    first: int
    bits: int = ID_BITS

    def __contains__(self, number: int) -> bool:
        """Return whether an id is in the range."""
        return (number ^ self.first) >> (ID_BITS - self.bits) == 0

    @property
    def count(self) -> int:
        """The number of ids in it."""
        return 1 << (ID_BITS - self.bits)


LEAVES, AGGREGATION, TOP = IdRange(0x0000, 1), IdRange(0x8000, 2), IdRange(0xC000, 3)
_RANGES = {2: (LEAVES, TOP), 3: (LEAVES, AGGREGATION, TOP)}


@dataclass(frozen=True)
class SegmentIds:
    """The ids of a fabric, in a block of addresses.

    Attributes:
        fabric: the fabric; what is up does not matter.
        block: the addresses that all carriers have in common.
    """

    fabric: Fabric
    block: IPv6Network = DEFAULT_BLOCK

    @classmethod
    def of(cls, fabric: Fabric, block: IPv6Network = DEFAULT_BLOCK) -> SegmentIds:
        """Return the ids of a fabric; ``block`` is used where its switches have no locators."""
        locator = fabric.switches[0].locator
        return cls(fabric, block if locator is None else block_of(locator))

    @property
    def given(self) -> bool:
        """Whether the fabric file gives the ids."""
        return self.fabric.switches[0].locator is not None

    @property
    def places(self) -> int:
        """How many ids a carrier has room for."""
        return (ADDRESS_BITS - self.block.prefixlen) // ID_BITS

    def layer(self, layer: int) -> tuple[IdRange, ...]:
        """Return ranges that hold the ids of all switches of a layer and of no other one."""
        if self.given:
            return tuple(self.switch(layer, index) for index in range(len(self.fabric.layers[layer])))
        return (self._range(layer),)

    def _range(self, layer: int) -> IdRange:
        return _RANGES[len(self.fabric.layers)][layer]

    @cached_property
    def _number_bits(self) -> tuple[int, ...]:
        """The bits that tell the ids of one switch apart, for each layer."""
        most = [1] * len(self.fabric.layers)
        for tier, number in zip(self.fabric.cable_tier.tolist(), self.fabric.cable_number.tolist(), strict=True):
            most[tier] = max(most[tier], number + 1)
            most[tier + 1] = max(most[tier + 1], number + 1)
        return tuple((many - 1).bit_length() for many in most)

    def switch(self, layer: int, index: int) -> IdRange:
        """Return all ids of a switch, by its index within its layer. Index 0 of the leaves begins behind id 0."""
        locator = self.fabric.layers[layer][index].locator
        if locator is not None:
            return IdRange(id_of(locator))
        bits = self._number_bits[layer]
        # An id of 0 ends a carrier.
        place = index + (layer == 0)
        return IdRange(self._range(layer).first + (place << bits), ID_BITS - bits)

    def over_cable(self, layer: int, index: int, number: int) -> int:
        """Return the id of a switch over the cable of this number (``Fabric.cable_number``)."""
        return self.switch(layer, index).first + number

    def host(self, host: int, *, inner: int | None = None) -> int:
        """Return the id of a host at its leaf, for IP packets of this version in the carrier: its own by default."""
        inner = inner or self.fabric.hosts[host].ip_version
        return (IPV4_HOSTS if inner == 4 else IPV6_HOSTS) + self.fabric.seats[host]

    def prefix(self, ids: IdRange) -> IPv6Network:
        """Return the addresses whose first id is in a range."""
        value = int(self.block.network_address) | ids.first << (ADDRESS_BITS - self.block.prefixlen - ID_BITS)
        return IPv6Network((value, self.block.prefixlen + ids.bits))

    def address(self, ids: tuple[int, ...]) -> IPv6Address:
        """Return the carrier of these ids.

        Raises:
            InputError: there are more than fit.
        """
        if len(ids) > self.places:
            raise InputError(
                f"a path needs {len(ids)} segment ids, and {self.places} fit behind a block of this length",
                field="block",
                value=str(self.block),
            )
        value = int(self.block.network_address)
        for place, number in enumerate(ids, start=1):
            value |= number << (ADDRESS_BITS - self.block.prefixlen - ID_BITS * place)
        return IPv6Address(value)

    def ids_of(self, address: IPv6Address) -> tuple[int, ...]:
        """Return the ids of a carrier, as far as it has any.

        Raises:
            InputError: the address is not in the block.
        """
        if address not in self.block:
            raise InputError(f"is not in the block {self.block}", field="carrier", value=str(address))
        shift = ADDRESS_BITS - self.block.prefixlen
        ids = tuple(int(address) >> (shift - ID_BITS * place) & 0xFFFF for place in range(1, self.places + 1))
        return ids[: ids.index(0)] if 0 in ids else ids

    def check(self) -> None:
        """See whether there are ids for the whole fabric.

        Raises:
            InputError: there are too many switches of a layer, or hosts of a leaf, or the block cannot be used.
        """
        if self.block.prefixlen not in BLOCK_BITS:
            raise InputError("a block has 16, 32 or 48 bits", field="block", value=str(self.block))
        several = self.fabric.cable_number.nonzero()[0].tolist()
        if self.given and several:
            raise InputError(
                "has the locator of its switches in common with another cable; without locators in the fabric file, "
                "each of several cables has ids of its own",
                field="links",
                value=self.fabric.cable_names[several[0]],
            )
        for layer, (role, switches) in enumerate(zip(self.fabric.roles, self.fabric.layers, strict=True)):
            room = (self._range(layer).count >> self._number_bits[layer]) - (layer == 0)
            if len(switches) > room and not self.given:
                raise InputError(
                    f"there are segment ids for {room} switches of the role {role}; the fabric has {len(switches)}",
                    field="switches",
                    value=switches[room].name,
                )
        for host, seat in enumerate(self.fabric.seats):
            if seat > HOSTS_OF_A_LEAF:
                raise InputError(
                    f"there are segment ids for {HOSTS_OF_A_LEAF} hosts of a leaf",
                    field="hosts",
                    value=self.fabric.hosts[host].name,
                )
