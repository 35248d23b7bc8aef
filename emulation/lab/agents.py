"""Agents on the hosts of a lab, and their way to a controller.

They are those that write paths into packets (``fairspine agent``), or those that find source ports (``fairspine
port-agent``).
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from emulation.controller_process import HTTP_PORT
from emulation.errors import LabError
from emulation.lab import Lab
from emulation.lab.base import BaseLab
from emulation.lab.routers import RouterLab
from emulation.netns import in_netns_of
from emulation.processes import Child
from emulation.relay import Relay, Target

PROGRAM, COMMAND = (str(Path(sys.executable).with_name(name)) for name in ("fairspine-agent", "fairspine"))
"""The programs of this environment, whatever is first in the path."""

AgentLab = Lab | RouterLab
"""Labs on whose hosts agents can run; those with OpenFlow switches are made with ``carriers``."""

AT_HOST = ("127.0.0.1", HTTP_PORT)
"""Where agents ask for plans, within the namespace of their host; and where a controller listens by default."""

REPORT_SECONDS = 1.0
STOP_SECONDS = 30.0

NO_OPTIONS_OF_OTHERS = dict.fromkeys(("FAIRSPINE_PLAN", "FAIRSPINE_TOKEN", "FAIRSPINE_CA_FILE"), "")
"""Variables of the environment that would be options of agents."""


def relay_to_controller(lab: BaseLab, host: str, controller: Target = AT_HOST) -> Relay:
    """Return what carries connections to ``AT_HOST`` at a host to a controller that is reached from here."""
    listener = in_netns_of(lab.host(host).pid, lambda: socket.create_server(AT_HOST))
    return Relay(listener, controller)


def agent_command(lab: AgentLab, host: str, state: Path, *options: str) -> list[str]:
    """Return the command of the agent of a host that writes paths; later options replace earlier ones."""
    return [PROGRAM, host, *_own_options(lab, host, state), *options]


def port_agent_command(lab: AgentLab, host: str, state: Path, *options: str) -> list[str]:
    """Return the command of the agent of a host that finds source ports; later options replace earlier ones."""
    return [COMMAND, "port-agent", host, *_own_options(lab, host, state), *options]


def _own_options(lab: AgentLab, host: str, state: Path) -> list[str]:
    (end,) = lab.wiring.ends(host)
    url = f"http://{AT_HOST[0]}:{AT_HOST[1]}"
    return ["--url", url, "--interface", end.interface, "--state", str(state), "--report-seconds", str(REPORT_SECONDS)]


class AgentCommand(Protocol):
    """Returns the command of the agent of a host."""

    def __call__(self, lab: AgentLab, host: str, state: Path, *options: str) -> list[str]:
        """Return it; ``state`` is the folder of what outlives the agent."""


class LabAgents:
    """An agent on each host, which follows a controller.

    Use it in a ``with`` statement. Its end removes what agents have set.
    """

    def __init__(
        self,
        lab: AgentLab,
        options: Sequence[str] = (),
        *,
        controller: Target = AT_HOST,
        command: AgentCommand = agent_command,
    ) -> None:
        """Keep the arguments.

        Args:
            lab: it is up while the agents run.
            options: further ones of each agent.
            controller: where it listens for HTTP, as seen from this process.
            command: returns that of the agent of a host, which says which agents they are.
        """
        self._lab, self._options, self._controller, self._command = lab, options, controller, command
        self._agents: list[Child] = []
        self._undo = ExitStack()

    def __enter__(self) -> LabAgents:
        """Start them."""
        with self._undo:
            for host in self._lab.fabric.host_names:
                self._undo.enter_context(relay_to_controller(self._lab, host, self._controller))
            self._undo.callback(self._stop)
            for host in self._lab.fabric.host_names:
                command = self._command(self._lab, host, self._lab.folder / "agents" / host, *self._options)
                agent = self._lab.spawn(f"host-agent-{host}", command, host=host, env=NO_OPTIONS_OF_OTHERS)
                self._agents.append(agent)
            self._undo = self._undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self._undo.close()

    def check(self) -> None:
        """See whether all run.

        Raises:
            LabError: one has ended; with the end of its log.
        """
        for agent in self._agents:
            status = agent.exit_status()
            if status is not None:
                raise LabError(f"{agent.name} ended with status {status}{agent.tail()}")

    def _stop(self) -> None:
        for agent in self._agents:
            agent.signal(signal.SIGTERM)
        for agent in self._agents:
            agent.stop(STOP_SECONDS)
