"""A network for discovery packets, with everything that may hold them up: switches, connections, the controller."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count

from controller.model.fabric import Fabric
from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey
from controller.southbound.discovery.link_evidence import LATE, LinkEvidence, PacketVerdict
from controller.southbound.discovery.lldp import LldpProbe

TICK = 0.05
WIRE = 1e-4


def cable_ports(fabric: Fabric) -> dict[PortId, PortId]:
    """Return the other end of each port of a cable."""
    dpid = {switch.name: switch.dpid for switch in fabric.switches}
    found = {}
    for cable in fabric.cables:
        a, b = PortId(dpid[cable.lower], cable.lower_port or 0), PortId(dpid[cable.upper], cable.upper_port or 0)
        found[a], found[b] = b, a
    return found


def probe_of(at: PortId, stamp: int) -> LldpProbe:
    """Return the discovery packet that goes out of a port of an OpenFlow switch."""
    assert isinstance(at.switch, int)
    return LldpProbe(at.switch, at.port, stamp)


@dataclass(frozen=True)
class Stall:
    """Somebody (a datapath id, or 0 for the controller) does nothing from ``begin`` to ``end``."""

    who: int
    begin: float
    end: float


class World:
    """Sends what is due, and brings it back: late, but in order on each connection and in each queue.

    Attributes:
        queue: how long a packet waits that is received by a port at a time, before its switch looks at it.
        dead: ports whose packets are lost on the wire.
        flooded: switches of whose packets the controller drops most unread, and knows it.
        deaf: switches that send no packet to the controller; ``mute``: those that send none out of a port.
        became_silent: (time, port) of each.
    """

    def __init__(
        self,
        wires: dict[PortId, PortId],
        *,
        expected: dict[PortId, PortId] | None = None,
        edges: Iterable[PortId] = (),
        stalls: Iterable[Stall] = (),
        delay: Callable[[], float] = lambda: 1e-3,
        queue: Callable[[PortId, float], float] = lambda at, now: 0.0,
        shuffle: random.Random | None = None,
        **options: object,
    ) -> None:
        self.now = 100.0
        self.wires, self.stalls, self.delay, self.queue = wires, list(stalls), delay, queue
        self.shuffle = shuffle or random.Random(0)
        self.evidence = LinkEvidence(self.now, expected=expected, **options)  # type: ignore[arg-type]
        self.dead: set[PortId] = set()
        self.deaf: set[int] = set()
        self.mute: set[int] = set()
        self.flooded: set[int] = set()
        self.became_silent: list[tuple[float, PortId]] = []
        self.arrivals: list[PacketVerdict] = []
        self.sent = 0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._at_switches: list[tuple[float, int, SwitchKey, Callable[[], object]]] = []
        """What switches give to their connections, when, and the event at the controller."""
        self._serial = count()
        self._down: dict[SwitchKey, float] = {}
        self._up: dict[SwitchKey, float] = {}
        self._queues: dict[PortId, float] = {}
        self._ran = self.now
        ports = [*wires, *edges]
        for dpid in sorted({port.switch for port in ports}):
            self.evidence.switch_entered(dpid, self.now)
        for port in sorted(ports):
            self.evidence.port_up(port, self.now)
        for dpid in sorted({port.switch for port in ports}):
            self.evidence.listens(dpid, self.now)

    def awake(self, who: SwitchKey, at: float) -> float:
        """When somebody does what comes at a time."""
        for stall in sorted(self.stalls, key=lambda stall: stall.begin):
            if stall.who == who and stall.begin <= at < stall.end:
                at = stall.end
        return at

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.now = self.awake(0, self.now + TICK)
            while self._at_switches and self._at_switches[0][0] <= self.now:
                at, _, dpid, event = heapq.heappop(self._at_switches)
                self._up[dpid] = arrives = max(self._up.get(dpid, 0.0), at + self.delay())
                heapq.heappush(self._events, (arrives, next(self._serial), event))
            ready = []
            while self._events and self._events[0][0] <= self.now:
                ready.append(heapq.heappop(self._events)[2])
            # After a stall the sender may run before what has come meanwhile is read, or in between.
            turn = self.shuffle.randint(0, len(ready))
            for event in ready[:turn]:
                event()
            self._tick()
            for event in ready[turn:]:
                event()

    def _tick(self) -> None:
        if self.now - self._ran - TICK > LATE:
            self.evidence.late(self.now)
        self._ran = self.now
        for dpid in self.flooded:
            self.evidence.dropped(dpid, self.now)
        before = set(self.evidence.silent)
        self.evidence.judge(self.now)
        self.became_silent += [(self.now, port) for port in self.evidence.silent - before]
        for key, due in self.evidence.schedule.due(self.now):
            self._send(key, due)

    def _send(self, dpid: SwitchKey, ports: list[int]) -> None:
        stamp = self.evidence.sent(dpid, ports, self.now)
        self.sent += len(ports)
        out = self._down[dpid] = self.awake(dpid, max(self._down.get(dpid, 0.0), self.now + self.delay()))
        for number in ports:
            at = self.wires.get(PortId(dpid, number))
            if at is not None and PortId(dpid, number) not in self.dead and dpid not in self.mute:
                left = max(self._queues.get(at, 0.0), out + WIRE + self.queue(at, out + WIRE))
                received = self.awake(at.switch, left)
                self._queues[at] = left
                if at.switch not in self.deaf:
                    self._to_controller(
                        at.switch, received, partial(self.arrive, at, probe_of(PortId(dpid, number), stamp))
                    )
        self._to_controller(dpid, out, lambda: self.evidence.answered(dpid, stamp, self.now))

    def arrive(self, at: PortId, probe: LldpProbe) -> PacketVerdict:
        """A packet is here."""
        if at.switch in self.flooded and self.shuffle.random() < 0.8:
            return PacketVerdict.STALE
        self.arrivals.append(self.evidence.arrived(at, probe, self.now))
        return self.arrivals[-1]

    def _to_controller(self, dpid: SwitchKey, at: float, event: Callable[[], object]) -> None:
        heapq.heappush(self._at_switches, (at, next(self._serial), dpid, event))
