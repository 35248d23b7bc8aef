"""Where the sFlow collector listens, and whom it believes."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from controller.model.errors import InputError
from controller.model.packets.port_numbers import MAX_PORT, SFLOW_PORT

Network = IPv4Network | IPv6Network


def parse_listen(text: str) -> tuple[str, int]:
    """Return the address and UDP port of ``ADDRESS``, ``ADDRESS:PORT`` or ``[ADDRESS]:PORT``.

    Raises:
        InputError: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, str(SFLOW_PORT)
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise InputError("must be an IP address, with or without a port", field="sflow_listen", value=text) from None
    if not port.isdecimal() or not 0 < int(port) <= MAX_PORT:
        raise InputError(f"the port must be 1 to {MAX_PORT}", field="sflow_listen", value=text)
    return str(address), int(port)


def parse_agents(text: str) -> tuple[Network, ...]:
    """Return the addresses and prefixes of a list with commas.

    Raises:
        InputError: one of them is neither.
    """
    networks = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            networks.append(ip_network(part, strict=False))
        except ValueError:
            raise InputError(
                "must be IP addresses or prefixes, separated by commas", field="sflow_agents", value=part
            ) from None
    return tuple(networks)


class AgentFilter:
    """The agents that are believed, by the source address of their datagrams."""

    def __init__(self, networks: tuple[Network, ...]) -> None:
        """Allow these addresses."""
        self._networks = networks
        # Bounded: forged source addresses are as many as the sender likes.
        self.allows = lru_cache(maxsize=4096)(self._allows)

    def _allows(self, source: str) -> bool:
        address: IPv4Address | IPv6Address = ip_address(source.partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)
