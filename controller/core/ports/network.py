"""The two sides of the network, for what needs both."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.ports.enforcer import Enforcer
from controller.core.ports.host_agents import HostAgents
from controller.core.ports.observer import Observer


@dataclass(frozen=True)
class Network:
    """An observer and an enforcer, which need not know each other.

    ``agents``: those of hosts; ``None``: hosts carry out no plans on this fabric.
    """

    observer: Observer
    enforcer: Enforcer
    agents: HostAgents | None = None
