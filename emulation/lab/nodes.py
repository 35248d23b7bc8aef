"""Mininet's hosts and switches as the lab uses them: labelled for the clean-up, on the lab's own Open vSwitch."""

from __future__ import annotations

import os
from typing import Any

from mininet.net import Mininet
from mininet.node import Host, Node, Switch

from emulation.private_ovs import PrivateOvs
from emulation.processes import LABEL
from emulation.wiring import Bridge

# Mininet would raise limits of the whole machine (open files, terminals) the first time it is used. The lab does not
# need that, and a machine's limits are not its to change.
Mininet.inited = True


class LabNode(Node):  # type: ignore[misc]
    """A node; every process that Mininet starts for it carries the lab's label."""

    def __init__(self, name: str, *, label: str, **params: Any) -> None:
        """Start the node; ``params`` are Mininet's."""
        # Mininet starts the node's shell while constructing it.
        self._label = label
        super().__init__(name, **params)

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        env = params.pop("env", None) or os.environ
        return super()._popen(cmd, env=dict(env) | {LABEL: self._label}, **params)


class LabHost(LabNode, Host):  # type: ignore[misc]
    """A network namespace with a shell in it. Mininet's ``cmd``, ``popen`` and ``pexec`` run commands inside."""


class LabRouter(LabNode):
    """A router: a network namespace with a shell in it, as a host is."""


class LabSwitch(LabNode, Switch):  # type: ignore[misc]
    """A switch for Mininet's book-keeping and its command line; the lab makes and deletes its bridge."""

    def __init__(self, name: str, *, switch: Bridge, ovs: PrivateOvs, **params: Any) -> None:
        """Create the node of a bridge; ``params`` are Mininet's."""
        self._switch = switch
        self._ovs = ovs
        super().__init__(name, dpid=f"{switch.dpid:016x}", **params)

    def dpctl(self, *args: str) -> str:
        """Mininet's name for ovs-ofctl; its command line offers it."""
        return self._ovs.ofctl(args[0], self._switch, *args[1:])

    def connected(self) -> bool:
        """Return whether the switch has an OpenFlow connection to its controller."""
        return self._ovs.connected()[self.name]
