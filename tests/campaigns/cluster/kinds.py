"""Faults of a cluster: each begins at a moment, and says how it ends."""

from __future__ import annotations

import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from emulation.http_client import ask
from tests.campaigns.cluster.clocks import ShiftedClock
from tests.campaigns.cluster.relays import CutRelay
from tests.campaigns.cluster.replicas import Replica, Replicas
from tests.campaigns.faults.world import Broken

End = Callable[[], None]
Begin = Callable[[Replicas, Replica], End]

HOUR = 3600

MOMENT_SECONDS = 60.0
"""In which a leader that is to be stopped amid something has to do it."""

SETTLED_SECONDS = 0.02
"""After which the server has done what a process has sent that is stopped now."""

LAG_SECONDS = 0.5
"""By which an asynchronous standby is behind when its primary dies."""

OFPT_FLOW_MOD = 14
_HEADER = struct.Struct("!BBHI")


@dataclass(frozen=True)
class ClusterFault:
    """A fault.

    Attributes:
        name: for tables and ``--kinds``.
        seconds: from its begin to its end.
        begin: causes it for the present leader; returns what ends it.
        replaced: whether another replica has to lead before the end of the fault.
        empties: whether switches lose their rules, and so packets.
        stays: whether the leader has to stay.
        may_lose: whether acknowledged changes may be lost.
        writes: whether clients write in each round, and not only in each second one.
        prepare: what is done before, however long it takes; it may stop the leader at its end.
    """

    name: str
    seconds: float
    begin: Begin
    replaced: bool = False
    empties: bool = False
    stays: bool = False
    may_lose: bool = False
    writes: bool = False
    prepare: Callable[[Replicas, Replica], None] = lambda world, leader: None


def _killed(world: Replicas, leader: Replica) -> End:
    world.kill(leader)
    return lambda: world.start(leader)


def _stopped(world: Replicas, leader: Replica) -> End:
    leader.signal(signal.SIGSTOP)
    return lambda: leader.signal(signal.SIGCONT)


def _stop_amid_commit(world: Replicas, leader: Replica) -> None:
    """Stop the leader between a statement that writes and the commit."""

    def stopped() -> bool:
        if not world.transactions():
            return False
        leader.signal(signal.SIGSTOP)
        # The server may have got the commit already.
        time.sleep(SETTLED_SECONDS)
        if world.transactions():
            return True
        leader.signal(signal.SIGCONT)
        return False

    _try_until(stopped, "no transaction of the leader could be stopped")


def _stop_amid_roll_out(world: Replicas, leader: Replica) -> None:
    """Stop the leader when it has sent the first of its changes to the switches."""
    sent = threading.Event()

    def see(chunk: bytes) -> None:
        if not sent.is_set() and OFPT_FLOW_MOD in message_types(chunk):
            leader.signal(signal.SIGSTOP)
            sent.set()

    for relay in leader.switches:
        relay.watch(see)
    if not sent.wait(MOMENT_SECONDS):
        raise Broken("the leader has changed no rule")


def _try_until(done: Callable[[], bool], else_: str) -> None:
    deadline = time.monotonic() + MOMENT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise Broken(else_)


def message_types(chunk: bytes) -> set[int]:
    """Return the types of the OpenFlow messages in a chunk that begins with a message (OpenFlow 1.3.5, section 7.1)."""
    found, at = set(), 0
    while at + _HEADER.size <= len(chunk):
        _, kind, length, _ = _HEADER.unpack_from(chunk, at)
        found.add(kind)
        at += max(length, _HEADER.size)
    return found


def _clock(shown: Callable[[Replicas, Replica], ShiftedClock | None], seconds: int) -> Begin:
    def begin(world: Replicas, leader: Replica) -> End:
        clock = shown(world, leader)
        if clock is None:
            raise Broken("the clocks of this cluster cannot be set")
        clock.set(seconds)
        return lambda: clock.set(0)

    return begin


def _of_leader(world: Replicas, leader: Replica) -> ShiftedClock | None:
    return leader.clock


def _of_server(world: Replicas, leader: Replica) -> ShiftedClock | None:
    return world.server_clock


def _synchronous(world: Replicas, leader: Replica) -> None:
    world.add_standby(synchronous=True)


def _asynchronous(world: Replicas, leader: Replica) -> None:
    world.add_standby(synchronous=False)
    # What is acknowledged from now on is lost with the primary.
    world.cut_standby()
    time.sleep(LAG_SECONDS)


def _failed_over(world: Replicas, leader: Replica) -> End:
    world.fail_over()
    return lambda: None


def _nothing(world: Replicas, leader: Replica) -> End:
    return lambda: None


def _continues(world: Replicas, leader: Replica) -> End:
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


def _all_cut_from_switches(world: Replicas, leader: Replica) -> End:
    """Cut the leader first: the others still hear switches when it no longer does.

    It lasts less than four echo requests (``maximum_unreplied_echo_requests``): connections that are closed come back
    one after the other, and another replica may have some before the leader has.
    """
    others = [replica for replica in world.all if replica is not leader]
    return _cut([*leader.switches, *(relay for replica in others for relay in replica.switches)])


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
    for loop in loops:
        # Replicas run first, too.
        loop.run_first()

    def end() -> None:
        for loop in loops:
            loop.kill()

    return end


KINDS = (
    ClusterFault("kill -9", 3.0, _killed, replaced=True),
    ClusterFault("stopped 3 s", 3.0, _stopped, replaced=True),
    ClusterFault("stopped 14 s", 14.0, _stopped, replaced=True),
    ClusterFault("stopped 60 s", 60.0, _stopped, replaced=True),
    ClusterFault("stopped amid a commit", 3.0, _continues, replaced=True, writes=True, prepare=_stop_amid_commit),
    ClusterFault("stopped amid a roll-out", 3.0, _continues, replaced=True, writes=True, prepare=_stop_amid_roll_out),
    ClusterFault("step-down", 2.0, _stepped_down, replaced=True),
    ClusterFault("cut from the store", 4.0, lambda world, leader: _cut([leader.store]), replaced=True),
    ClusterFault("cut from switches", 4.0, lambda world, leader: _cut(leader.switches), replaced=True),
    ClusterFault("cut from switches for long", 15.0, lambda world, leader: _cut(leader.switches), replaced=True),
    ClusterFault("all cut from switches", 3.0, _all_cut_from_switches, stays=True),
    ClusterFault("cut from half of the switches", 4.0, lambda world, leader: _cut(leader.switches[:1])),
    ClusterFault("cut from clients", 3.0, lambda world, leader: _cut([leader.clients])),
    ClusterFault("cut from peers", 3.0, lambda world, leader: _cut([leader.peers])),
    ClusterFault("store stalls", 3.0, _store_stalls),
    ClusterFault("store killed", 2.0, _store_killed),
    ClusterFault("fail-over to a synchronous standby", 3.0, _failed_over, writes=True, prepare=_synchronous),
    ClusterFault(
        "fail-over to an asynchronous standby", 3.0, _failed_over, writes=True, may_lose=True, prepare=_asynchronous
    ),
    ClusterFault("leader's clock an hour ahead", 3.0, _clock(_of_leader, HOUR), stays=True),
    ClusterFault("leader's clock an hour behind", 3.0, _clock(_of_leader, -HOUR), stays=True),
    ClusterFault("server's clock an hour ahead", 3.0, _clock(_of_server, HOUR), stays=True),
    ClusterFault("server's clock an hour behind", 3.0, _clock(_of_server, -HOUR), stays=True),
    ClusterFault("switches restart", 2.0, _switches_restart, empties=True),
    ClusterFault("switches restart and kill -9", 3.0, _both_die, replaced=True, empties=True),
    ClusterFault("both cores busy", 5.0, _saturated),
    ClusterFault("nothing for 60 s", 60.0, _nothing, stays=True),
)
"""All kinds, by how they end: by themselves, or after ``seconds``."""
