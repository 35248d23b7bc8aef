"""Locators of switches: IPv6 prefixes, each a common block and the 16-bit segment id of a switch (RFC 9800)."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv6Network

from controller.model.errors import InputError
from controller.model.fabric_parts import Switch

ID_BITS = 16
"""Of a segment id."""

FIRST_LOCAL_ID = 0xE000
"""Ids from here on are those of hosts, which only their leaf knows."""

BLOCK_BITS = (16, 32, 48)


def block_of(locator: str) -> IPv6Network:
    """Return the block of a locator."""
    return IPv6Network(locator).supernet(ID_BITS)


def id_of(locator: str) -> int:
    """Return the id of a locator."""
    prefix = IPv6Network(locator)
    return int(prefix.network_address) >> (prefix.max_prefixlen - prefix.prefixlen) & 0xFFFF


def check_locators(switches: Sequence[Switch]) -> None:
    """See whether locators can be used together.

    Raises:
        InputError: some switches have none; two have the same one; one has another length or block than the first; or
            its id is 0 or one of hosts.
    """
    first = next((switch.locator for switch in switches if switch.locator), None)
    if first is None:
        return
    seen: dict[str, str] = {}
    for i, switch in enumerate(switches):
        field, locator = f"switches[{i}].locator", switch.locator
        if locator is None:
            raise InputError(f"field required ({switch.name} has none, and other switches have one)", field=field)
        bits = IPv6Network(locator).prefixlen
        if bits - ID_BITS not in BLOCK_BITS:
            raise InputError("a locator has 32, 48 or 64 bits", field=field, value=locator)
        if block_of(locator) != block_of(first):
            raise InputError(f"is not in {block_of(first)}, the block of the first locator", field=field, value=locator)
        if not 0 < id_of(locator) < FIRST_LOCAL_ID:
            raise InputError(
                f"ids of switches are from 1 to {FIRST_LOCAL_ID - 1:#x}; this one is {id_of(locator):#x}",
                field=field,
                value=locator,
            )
        if locator in seen:
            raise InputError(f"{seen[locator]} and {switch.name} have the same locator", field=field, value=locator)
        seen[locator] = switch.name
