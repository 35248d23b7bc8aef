"""An optical fabric: servers with several NICs each, and optical switches or patch panels that connect NICs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import IntArray

BoolArray = NDArray[np.bool_]


class Circuit(NamedTuple):
    """Light that an optical switch passes from one of its ports to another; all ports are those of NICs."""

    switch: str
    in_port: int
    out_port: int


@dataclass(frozen=True, eq=False)
class OpticalFabric:
    """n servers with d NICs each; NICs of one number are on one optical switch.

    Each NIC sends on one fibre and receives on another one. A *circuit* leads from the NIC of one server to a NIC of
    another server at the same switch.

    Attributes:
        servers: the names of the servers.
        nics: the number d of NICs of each server.
        gbps: the rate of each NIC in each direction.
        switch_names: the optical switches, in order of the file.
        switch_of: [d] the switch of each NIC number, as an index of ``switch_names``.
        ports: [n, d] the port of each NIC on its switch.
        duplex: whether a circuit always connects two NICs in both directions.
        reconfigure_seconds: how long a change of circuits takes, during which the NICs that it concerns are dark.
        forwarding: whether servers forward packets that are for others.
        dead: [n, d] NICs whose port is out of order.
        circuits: the circuits of now.
        dpids: the datapath id of each optical switch, where it speaks OpenFlow.
    """

    servers: tuple[str, ...]
    nics: int
    gbps: float
    switch_names: tuple[str, ...]
    switch_of: IntArray
    ports: IntArray
    duplex: bool
    reconfigure_seconds: float
    forwarding: bool
    dead: BoolArray
    circuits: tuple[Circuit, ...] = ()
    dpids: tuple[int, ...] = ()

    @property
    def n_servers(self) -> int:
        """The number n of servers."""
        return len(self.servers)

    @cached_property
    def server_index(self) -> dict[str, int]:
        """The number of each server by its name."""
        return {name: i for i, name in enumerate(self.servers)}

    @cached_property
    def nic_at(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The (server, NIC) at each (switch, port)."""
        return {
            (int(self.switch_of[nic]), int(self.ports[server, nic])): (server, nic)
            for server in range(self.n_servers)
            for nic in range(self.nics)
        }

    def circuit(self, sender: tuple[int, int], receiver: tuple[int, int]) -> Circuit:
        """Return the circuit from one (server, NIC) to another on the same switch."""
        switch = int(self.switch_of[sender[1]])
        return Circuit(self.switch_names[switch], int(self.ports[sender]), int(self.ports[receiver]))

    def ends(self, circuit: Circuit) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the (server, NIC) at both ends of a circuit."""
        switch = self.switch_names.index(circuit.switch)
        return self.nic_at[switch, circuit.in_port], self.nic_at[switch, circuit.out_port]

    def changes(self, circuits: Sequence[Circuit]) -> tuple[list[Circuit], list[Circuit]]:
        """Return the present circuits that other ones replace, and those of the others that are new.

        A present circuit is kept unless a new one needs one of its ports.
        """
        new = [each for each in circuits if each not in set(self.circuits)]
        taken_in = {(each.switch, each.in_port) for each in new}
        taken_out = {(each.switch, each.out_port) for each in new}
        removed = [
            each
            for each in self.circuits
            if (each.switch, each.in_port) in taken_in or (each.switch, each.out_port) in taken_out
        ]
        return removed, new
