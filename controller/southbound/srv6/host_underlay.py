"""The IPv6 address of a host below an OpenFlow switch, and the neighbour by which it reaches its leaf."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Interface

LEAF_MAC = "02:fa:15:00:00:01"
"""Of the leaf, which has no address of its own and answers no question for one (RFC 4861): any will do."""


def host_underlay(interface: str, near: IPv6Interface, far: IPv6Address) -> str:
    """Return a shell script that gives a host its address, and a default route to its leaf.

    Args:
        interface: of the host.
        near: its address at its link (``CableAddresses``), which is the source of packets with carriers.
        far: the address at the other end.
    """
    return "\n".join(
        [
            f"sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=0",
            f"ip -6 address replace {near} dev {interface} nodad",
            f"ip -6 neighbour replace {far} lladdr {LEAF_MAC} dev {interface} nud permanent",
            f"ip -6 route replace default via {far} dev {interface}",
            "",
        ]
    )
