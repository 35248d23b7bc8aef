"""The two sides of the network, for what needs both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controller.core.ports.cable_witnesses import CableWitnesses
from controller.core.ports.enforcer import Enforcer
from controller.core.ports.host_agents import HostAgents
from controller.core.ports.observer import Observer
from controller.model.network_state import NetworkState


@dataclass(frozen=True)
class Network:
    """An observer and an enforcer, which need not know each other.

    Attributes:
        observer, enforcer: the two.
        agents: those of hosts; ``None``: hosts carry out no plans on this fabric.
        witnesses: who shows something of cables that the observer cannot see; ``None``: nobody does.
    """

    observer: Observer
    enforcer: Enforcer
    agents: HostAgents | None = None
    witnesses: CableWitnesses | None = None

    def observe(self) -> NetworkState:
        """Return a snapshot of the network, with what others have shown of it."""
        observed = self.observer.observe()
        if self.witnesses is not None:
            observed = replace(observed, shown_cables=self.witnesses.cables, passed_cables=self.witnesses.passed_cables)
        return observed if self.agents is None else replace(observed, portless=self.agents.portless())

    def notices(self) -> list[str]:
        """Return the faults of all, each once, for people."""
        texts = [*self.observer.notices(), *self.enforcer.notices()]
        return list(dict.fromkeys([*texts, *(self.witnesses.notices() if self.witnesses else ())]))
