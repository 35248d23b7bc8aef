"""An agent on each server of a circuit lab (``fairspine circuit-agent``), and its way to a controller."""

from __future__ import annotations

import signal
from contextlib import ExitStack

from emulation.circuits.lab import INTERFACES, CircuitLab
from emulation.lab.agents import AT_HOST, COMMAND, NO_OPTIONS_OF_OTHERS, STOP_SECONDS, relay_to_controller
from emulation.processes import Child
from emulation.relay import Target


class CircuitAgents:
    """Agents that follow a controller; use it in a ``with`` statement. What they have set stays."""

    def __init__(self, lab: CircuitLab, controller: Target = AT_HOST) -> None:
        """Keep the arguments; ``controller``: where it listens for HTTP, as seen from this process."""
        self._lab, self._controller = lab, controller
        self._agents: dict[str, Child] = {}
        self._undo = ExitStack()

    def __enter__(self) -> CircuitAgents:
        """Start them."""
        with self._undo:
            for server in self._lab.optical.servers:
                self._undo.enter_context(relay_to_controller(self._lab, server, self._controller))
            self._undo.callback(self._stop)
            for server in self._lab.optical.servers:
                url = f"http://{AT_HOST[0]}:{AT_HOST[1]}"
                command = [COMMAND, "circuit-agent", server, "--url", url, "--interfaces", INTERFACES]
                agent = self._lab.spawn(f"circuit-agent-{server}", command, host=server, env=NO_OPTIONS_OF_OTHERS)
                self._agents[server] = agent
            self._undo = self._undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self._undo.close()

    def _stop(self) -> None:
        for agent in self._agents.values():
            agent.signal(signal.SIGTERM)
        for agent in self._agents.values():
            agent.stop(STOP_SECONDS)
