"""The sender MAC address of ARP probes: only a host that has received a probe can answer it.

An answer to an ARP request goes to the request's sender address (RFC 826). Each probe has a sender address that follows
from a secret of this run, the address asked for, the port and the time, so that an answer proves that a host at that
port has received the probe. No table of outstanding probes is needed.
"""

from __future__ import annotations

import secrets
import struct
from hashlib import blake2b

from controller.model.network_state import PortId

WINDOW = 8.0
"""Seconds for which an address is used; answers are accepted in the same window and the next."""

PREFIX = b"\x0e\x15"
"""First bytes: a locally administered unicast address (IEEE 802, section 8.4), so no manufacturer's."""


class ProbeMac:
    """Makes and recognises the sender addresses of probes.

    Args:
        secret: up to 64 bytes; by default a random one.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        """Set the secret of this run; ``None``: a random one."""
        self._secret = secrets.token_bytes(32) if secret is None else secret

    def of(self, ip: str, at: PortId, now: float) -> str:
        """Return the sender address of a probe for an address at a port, sent now (seconds of any clock)."""
        return self._in_window(ip, at, int(now // WINDOW))

    def proves(self, mac: str, ip: str, at: PortId, now: float) -> bool:
        """Return whether this is the sender address of a probe that was sent to the port a short time ago."""
        if not mac.startswith("0e:15:"):
            return False
        window = int(now // WINDOW)
        return mac in (self._in_window(ip, at, window), self._in_window(ip, at, window - 1))

    def _in_window(self, ip: str, at: PortId, window: int) -> str:
        message = ip.encode() + struct.pack("!QIq", at.switch, at.port, window)
        return (PREFIX + blake2b(message, digest_size=4, key=self._secret).digest()).hex(":")
