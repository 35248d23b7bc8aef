"""Faults of a cluster: each begins at a moment, and says how it ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from emulation.cluster.relays import CutRelay
from emulation.cluster.replicas import Replica, Replicas
from emulation.http_json import ask

End = Callable[[], None]


@dataclass(frozen=True)
class ClusterFault:
    """A fault.

    Attributes:
        name: for tables and ``--kinds``.
        seconds: from its begin to its end.
        begin: causes it for the present leader; returns what ends it.
        replaced: whether another replica has to lead before the end of the fault.
        empties: whether switches lose their rules, and so packets.
    """

    name: str
    seconds: float
    begin: Callable[[Replicas, Replica], End]
    replaced: bool = False
    empties: bool = False


def _killed(world: Replicas, leader: Replica) -> End:
    world.kill(leader)
    return lambda: world.start(leader)


def _stopped(world: Replicas, leader: Replica) -> End:
    leader.signal(signal.SIGSTOP)
    return lambda: leader.signal(signal.SIGCONT)


def _stepped_down(world: Replicas, leader: Replica) -> End:
    ask(leader.address, "POST", "/v1/cluster:step-down", {})
    return lambda: None


def _cut(relays: Iterable[CutRelay]) -> End:
    chosen = list(relays)
    for relay in chosen:
        relay.cut()

    def mend() -> None:
        for relay in chosen:
            relay.mend()

    return mend


def _store_stalls(world: Replicas, leader: Replica) -> End:
    world.server.stall(True)
    return lambda: world.server.stall(False)


def _store_killed(world: Replicas, leader: Replica) -> End:
    world.server.kill()
    return world.server.start


def _switches_restart(world: Replicas, leader: Replica) -> End:
    world.lab.restart_switches()
    return lambda: None


def _both_die(world: Replicas, leader: Replica) -> End:
    world.kill(leader)
    world.lab.restart_switches()
    return lambda: world.start(leader)


def _saturated(world: Replicas, leader: Replica) -> End:
    loops = [world.lab.spawn(f"busy{n}", [sys.executable, "-c", "while True: pass"]) for n in range(2)]

    def end() -> None:
        for loop in loops:
            loop.kill()

    return end


KINDS = (
    ClusterFault("kill -9", 3.0, _killed, replaced=True),
    ClusterFault("stopped 3 s", 3.0, _stopped, replaced=True),
    ClusterFault("stopped 14 s", 14.0, _stopped, replaced=True),
    ClusterFault("stopped 60 s", 60.0, _stopped, replaced=True),
    ClusterFault("step-down", 2.0, _stepped_down, replaced=True),
    ClusterFault("cut from the store", 4.0, lambda world, leader: _cut([leader.store]), replaced=True),
    ClusterFault("cut from switches", 4.0, lambda world, leader: _cut(leader.switches)),
    ClusterFault("cut from half of the switches", 4.0, lambda world, leader: _cut(leader.switches[:1])),
    ClusterFault("cut from clients", 3.0, lambda world, leader: _cut([leader.clients])),
    ClusterFault("cut from peers", 3.0, lambda world, leader: _cut([leader.peers])),
    ClusterFault("store stalls", 3.0, _store_stalls),
    ClusterFault("store killed", 2.0, _store_killed),
    ClusterFault("switches restart", 2.0, _switches_restart, empties=True),
    ClusterFault("switches restart and kill -9", 3.0, _both_die, replaced=True, empties=True),
    ClusterFault("both cores busy", 5.0, _saturated),
)
"""All kinds, by how they end: by themselves, or after ``seconds``."""
