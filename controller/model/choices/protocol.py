"""Protocols of flows by name; apart from ``flow_ports``, so that commands start without NumPy."""

from __future__ import annotations

from typing import Literal, get_args

Protocol = Literal["roce", "tcp", "udp", "any"]
"""RoCEv2; TCP; UDP other than RoCEv2; all packets between two hosts that no other flow has."""

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

ROCE: Protocol = "roce"
"""The protocol of jobs that state none."""
