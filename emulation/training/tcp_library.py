"""libfairspine-tcp, which ranks load where hosts choose the source ports of connections."""

from __future__ import annotations

from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "out/tcp/libfairspine-tcp.so"
"""Where ``make tcp`` writes it."""

SOCKET = "@fairspine-tcp"
"""Where the agent of a host answers the programs in its network namespace; the library asks there by default."""

AGENT_OPTIONS = ("--tcp", SOCKET)

CONTROLLER_OPTIONS = ("--probe-burst", "100", "--probe-rate", "1000", "--probe-router-rate", "100000")
"""Frameworks connect all their processes at once, and the routers of the lab answer that much."""


def preloaded() -> dict[str, str]:
    """Return the environment of a process that loads it."""
    return {"LD_PRELOAD": str(LIBRARY)}
