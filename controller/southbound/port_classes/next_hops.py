"""The addresses of switches at the far ends of uplinks, to which policies of routers send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.southbound.srv6.router_configuration import CableAddresses

Address = IPv4Address | IPv6Address
HopAddress = Callable[[str, str, int], Address]
"""Returns the address at the far end of an uplink, by the switch, its interface, and the link."""


def of_cables(fabric: Fabric, prefix: str) -> HopAddress:
    """Return the addresses that the ends of cables have, two for each in the order of the file; the upper end is odd.

    IPv6 addresses are those of ``fairspine export srv6`` with the same prefix. IPv4 has networks of two (RFC 3021).

    Raises:
        InputError: it is no prefix, or too small.
    """
    try:
        network = ip_network(prefix)
    except ValueError:
        raise InputError("is not an IP prefix", field="--cables", value=prefix) from None
    if isinstance(network, IPv6Network):
        addresses = CableAddresses(fabric, network)
        addresses.check()
        return lambda _switch, _interface, link: addresses.of_link(link, far=True).ip
    if 2 * len(fabric.cables) > network.num_addresses:
        raise InputError(f"has no room for {len(fabric.cables)} cables", field="--cables", value=prefix)
    return _Numbered(fabric, network)


class _Numbered:
    """A ``HopAddress``: two IPv4 addresses for each cable."""

    def __init__(self, fabric: Fabric, network: IPv4Network) -> None:
        self._first_cable, self._network = fabric.first_cable_link, network

    def __call__(self, _switch: str, _interface: str, link: int) -> Address:
        return self._network.network_address + (link - self._first_cable) + 1


def of_document(document: Any, source: str) -> HopAddress:
    """Return the addresses of a document: for each switch the address of the other end by interface.

    Args:
        document: as it was read.
        source: names it in errors.

    Raises:
        InputError: it is of another form.
    """
    if not isinstance(document, Mapping):
        raise InputError("is no object of switches", source=source)
    addresses: dict[tuple[str, str], Address] = {}
    for switch, interfaces in document.items():
        if not isinstance(interfaces, Mapping):
            raise InputError("is no object of interfaces", source=source, field=str(switch))
        for interface, text in interfaces.items():
            try:
                addresses[str(switch), str(interface)] = ip_address(str(text))
            except ValueError:
                raise InputError(
                    "is not an IP address", source=source, field=f"{switch}.{interface}", value=text
                ) from None

    def address(switch: str, interface: str, _link: int) -> Address:
        if (switch, interface) not in addresses:
            raise InputError("has no address of the other end", source=source, field=f"{switch}.{interface}")
        return addresses[switch, interface]

    return address
