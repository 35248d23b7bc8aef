"""The parts of a fabric: switches, hosts and cables. ``controller.model.fabric`` exports them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Switch:
    """A leaf or a spine, with the OpenFlow datapath id by which it connects."""

    name: str
    dpid: int


@dataclass(frozen=True, slots=True)
class Host:
    """One RDMA NIC with one IP address. ``port`` is the leaf's OpenFlow port (``None``: not known yet)."""

    name: str
    leaf: str
    gbps: float
    ip: str
    mac: str
    server: str
    rail: int = 0
    port: int | None = None
    up: bool = True


@dataclass(frozen=True, slots=True)
class Cable:
    """A leaf-spine cable (two directed links). Ports are OpenFlow port numbers, ``None`` where not known yet."""

    leaf: str
    spine: str
    gbps: float
    up: bool = True
    leaf_port: int | None = None
    spine_port: int | None = None
