"""A packet of a flow, which the interpreter walks through rules."""

from __future__ import annotations

from controller.model.fabric import Host
from controller.model.packets.flow_ports import NO_PROTOCOL, PORT_MASK, TCP, UDP, PortKind, kind_of
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.forwarding.base import ETH_IPV4
from controller.southbound.rules.interpreter import Packet
from controller.southbound.rules.rule import ETH_IPV6

NO_PORT = 0
"""In place of ports that are not known: no job can state it, so that no rule of another flow has it."""


def packet_of(source: Host, target: Host, code: int) -> Packet:
    """Return the header fields of a packet of a flow; ``code``: as in ``model.flow_ports``."""
    addresses: dict[str, int | str] = {"eth_src": source.mac, "eth_dst": target.mac, "eth_type": ETH_IPV4}
    ends = {"ipv4_src": source.ip, "ipv4_dst": target.ip}
    kind, port = kind_of(code), code & PORT_MASK
    if kind == PortKind.ROCE:
        return {**addresses, "ip_proto": UDP, **ends, "udp_src": port or NO_PORT, "udp_dst": ROCE_PORT}
    if kind == PortKind.ANY:
        return {**addresses, "ip_proto": NO_PROTOCOL, **ends}
    if kind == PortKind.UDP_TO:
        return {**addresses, "ip_proto": UDP, **ends, "udp_src": NO_PORT, "udp_dst": port}
    src_port, dst_port = (port, NO_PORT) if kind == PortKind.TCP_FROM else (NO_PORT, port)
    return {**addresses, "ip_proto": TCP, **ends, "tcp_src": src_port, "tcp_dst": dst_port}


def open_fields(code: int) -> frozenset[str]:
    """Return the header fields in which packets of a flow differ from the one of ``packet_of``."""
    kind, ports = kind_of(code), {"tcp_src", "tcp_dst", "udp_src", "udp_dst"}
    if kind == PortKind.ANY:
        return frozenset({"ip_proto", *ports})
    known = {
        PortKind.ROCE: "udp_src",
        PortKind.TCP_TO: "tcp_dst",
        PortKind.TCP_FROM: "tcp_src",
        PortKind.UDP_TO: "udp_dst",
    }[kind]
    return frozenset(ports - {known} if code & PORT_MASK else ports) - ({"udp_dst"} if kind == PortKind.ROCE else set())


def carrier_packet(carrier: str) -> dict[str, int | str]:
    """Return the header fields of a packet whose path is in its destination address (SRv6)."""
    return {"eth_type": ETH_IPV6, "ipv6_dst": carrier}
