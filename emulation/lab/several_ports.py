"""Addresses and routes of a NIC with several ports, which share its network namespace.

A packet leaves by the port whose address it has as its source: a rule for each address selects a table whose default
route is that port. Programs that choose no address reach the prefixes of a network by the first port in it. An
interface answers ARP for its own address only; Linux would answer for those of all interfaces, and so would the wrong
plane.
"""

from __future__ import annotations

from emulation.wiring import HostAddress, Wiring

FIRST_TABLE = 101
"""Number of the routing table of a NIC's first port; Linux has its own tables from 253 to 255."""


def addressing(wiring: Wiring, name: str) -> str:
    """Return what a shell script has to add to give a port its address, its rule and its routes.

    It is empty for a host that is the only port of its NIC.
    """
    port, interface = _port(wiring, name)
    if interface is None:
        return ""
    sysctl = "/proc/sys/net/ipv4/conf/all"
    return (
        f"; echo 1 > {sysctl}/arp_ignore; echo 2 > {sysctl}/arp_announce"
        f"; ip address add {port.ip}/32 dev {interface}; ip link set dev {interface} up"
        f"; ip rule add from {port.ip} table {_table(wiring, port)}{routing(wiring, name)}"
    )


def routing(wiring: Wiring, name: str) -> str:
    """Return what a script has to add to set a port's routes; Linux deletes them when its interface is set down."""
    port, interface = _port(wiring, name)
    if interface is None:
        return ""
    table = _table(wiring, port)
    script = f"; ip route replace default dev {interface} src {port.ip} table {table}"
    for prefix in port.reaches:
        # Where several ports reach a prefix, the first one has the smallest metric.
        script += f"; ip route replace {prefix} dev {interface} src {port.ip} metric {table}"
    return script


def _port(wiring: Wiring, name: str) -> tuple[HostAddress, str | None]:
    """Return a host by name, and its interface if it is one of several ports and has a cable."""
    port = next(host for host in wiring.hosts if host.name == name)
    ends = wiring.ends(name) if port.nic else ()
    return port, ends[0].interface if ends else None


def _table(wiring: Wiring, port: HostAddress) -> int:
    return FIRST_TABLE + wiring.ports(port.namespace).index(port)
