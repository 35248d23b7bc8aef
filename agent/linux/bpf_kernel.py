"""Steering by an eBPF program, which needs no nftables (``ebpf/steering.c``).

Routes give packets a carrier, and the program writes that of the flow over it where packets leave by the interface. A
packet costs one look-up of its flow and one of the mark, however many flows there are.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address
from pathlib import Path

from agent.linux.bpf_egress import BpfEgress
from agent.linux.bpf_objects import BpfObject
from agent.linux.kernel import Counts, RouteKernel
from agent.linux.kernel_routes import KernelRoutes
from agent.linux.kernel_state import KernelChanges, KernelState, PathSlot
from agent.plans.flow_keys import KEY4_BYTES, KEY6_BYTES

PROGRAM = "fairspine_steer"

FLOWS = {KEY4_BYTES: "flows4", KEY6_BYTES: "flows6"}
PAIRS = {4: "pairs4", 16: "pairs6"}
CARRIERS, SLOT_MAP = "carriers", "slots"
_MARK, _SLOT, _FLOW = struct.Struct("=I"), struct.Struct("=II"), struct.Struct("=I4xQQ")


class BpfKernel:
    """Routes, and maps of an eBPF program from flows to marks and from marks to carriers.

    Maps are changed element by element: carriers come before the flows that use them, and go after them, so each packet
    takes a path of the plan before or of the new one.
    """

    name, by_flow = "ebpf", True

    def __init__(self, routes: KernelRoutes, interface: str, path: Path) -> None:
        """Load the program, with the maps of the one that is attached.

        Args:
            routes: that give packets a carrier.
            interface: by which packets leave.
            path: of the compiled program.

        Raises:
            HostAgentError: libbpf or the program is missing.
            OSError: the kernel has refused it.
        """
        self._routes, self._egress = routes, BpfEgress(socket.if_nametoindex(interface), PROGRAM)
        names = (*FLOWS.values(), *PAIRS.values(), CARRIERS, SLOT_MAP)
        self._object = BpfObject(path, PROGRAM, names, self._egress.program())
        self._maps = self._object.maps

    def prepare(self) -> None:
        """Attach the program, and lead packets to the table of routes."""
        self._egress.attach(self._object.program)
        self._routes.lead(True)

    def held(self) -> tuple[KernelState, dict[bytes, Counts]]:
        """Return the state of table and maps, and the counters of flows.

        Raises:
            OSError: the program is not attached (``ENOENT``), or the kernel has refused it.
        """
        if self._egress.program() is None:
            raise OSError(errno.ENOENT, "the eBPF program is not attached")
        segments, routes = self._routes.read()
        flows, counts = {}, {}
        for name in FLOWS.values():
            for key, value in self._maps[name].read():
                flows[key], *sent = _FLOW.unpack(value)
                counts[key] = Counts(*sent)
        carriers = {_MARK.unpack(key)[0]: IPv6Address(value) for key, value in self._maps[CARRIERS].read()}
        slots = {PathSlot(*_SLOT.unpack(key)): IPv6Address(value) for key, value in self._maps[SLOT_MAP].read()}
        pairs = {key: _MARK.unpack(value)[0] for name in PAIRS.values() for key, value in self._maps[name].read()}
        return KernelState(segments, routes, flows, carriers, slots, pairs), counts

    def change(self, changes: KernelChanges) -> None:
        """Change routes and maps."""
        self._routes.set(changes.set_routes.items(), changes.add_segments)
        self._maps[CARRIERS].set((_MARK.pack(mark), each.packed) for mark, each in changes.set_carriers.items())
        self._maps[SLOT_MAP].set((_SLOT.pack(*slot), each.packed) for slot, each in changes.slots.set.items())
        self._set(FLOWS, ((key, _FLOW.pack(mark, 0, 0)) for key, mark in changes.set_flows.items()))
        self._remove(FLOWS, changes.del_flows)
        self._set(PAIRS, ((key, _MARK.pack(mark)) for key, mark in changes.pairs.set.items()))
        self._remove(PAIRS, changes.pairs.removed)
        self._maps[SLOT_MAP].remove(_SLOT.pack(*slot) for slot in changes.slots.removed)
        self._maps[CARRIERS].remove(map(_MARK.pack, changes.del_carriers))
        added = {segment.prefix for segment in changes.add_segments}
        self._routes.remove(changes.del_routes, [each for each in changes.del_segments if each.prefix not in added])

    def has_made(self, changes: KernelChanges) -> bool:
        """Return whether the maps of flows, carriers and slots have these changes.

        Raises:
            OSError: the kernel has refused it.
        """
        if self._egress.program() is None:
            return False
        marks = {key: self._maps[FLOWS[len(key)]].value(key) for key in (*changes.set_flows, *changes.del_flows)}
        carriers, slots = self._maps[CARRIERS], self._maps[SLOT_MAP]
        return (
            all((value := marks[key]) and _FLOW.unpack(value)[0] == mark for key, mark in changes.set_flows.items())
            and not any(marks[key] for key in changes.del_flows)
            and all(carriers.value(_MARK.pack(mark)) == each.packed for mark, each in changes.set_carriers.items())
            and all(slots.value(_SLOT.pack(*slot)) == each.packed for slot, each in changes.slots.set.items())
        )

    def remove(self) -> None:
        """Remove the program, the routes, and the rules that lead to them."""
        RouteKernel(self._routes).remove()
        self._egress.detach()

    def _set(self, names: Mapping[int, str], items: Iterable[tuple[bytes, bytes]]) -> None:
        """Set elements of the maps of both versions of IP, by the size of their keys."""
        wanted = list(items)
        for size, name in names.items():
            self._maps[name].set(item for item in wanted if len(item[0]) == size)

    def _remove(self, names: Mapping[int, str], keys: Iterable[bytes]) -> None:
        for key in keys:
            self._maps[names[len(key)]].remove((key,))
