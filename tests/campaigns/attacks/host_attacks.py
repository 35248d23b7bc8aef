"""Attacks by one host, which sends raw frames on its interface."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from emulation import netns
from tests.campaigns.attacks import frames
from tests.campaigns.attacks.frames import ETH_LLDP
from tests.campaigns.attacks.rogue import Attack, Rogue

PER_SECOND = 200.0
FLOOD_PER_SECOND = 4000.0
BURST_SECONDS = 0.01


def _send(rogue: Rogue, made: Callable[[Rogue], bytes], *, per_second: float = PER_SECOND) -> None:
    """Send frames at a rate, in bursts of 10 ms."""
    with _own(rogue) as out:
        due = 0.0
        start = time.monotonic()
        while rogue.going:
            due += per_second * BURST_SECONDS
            while due >= 1:
                due -= 1
                _put(rogue, out, made(rogue))
            start += BURST_SECONDS
            time.sleep(max(0.0, min(start - time.monotonic(), rogue.left)))


def _own(rogue: Rogue) -> socket.socket:
    """Open a raw socket on the rogue host's interface, in that host's namespace (not in that of this process)."""
    return netns.in_netns_of(rogue.order.host_pid, lambda: _raw(rogue.order.interface))


def _raw(interface: str, protocol: int = 0) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    made.bind((interface, protocol))
    return made


def _put(rogue: Rogue, out: socket.socket, frame: bytes) -> None:
    # A full queue, or a frame that the interface does not take: not sent, and not counted.
    with suppress(OSError):
        out.send(frame)
        rogue.transcript.sent(0, frame)


def _forged_arp(rogue: Rogue) -> bytes:
    return frames.forged_arp(rogue.rng, rogue.order.me, list(rogue.order.victims))


def _poisonous_arp(rogue: Rogue) -> bytes:
    return frames.poisonous_arp(rogue.rng, rogue.order.me, list(rogue.order.victims))


def _random_arp(rogue: Rogue) -> bytes:
    return frames.random_arp(rogue.rng)


def _malformed_arp(rogue: Rogue) -> bytes:
    return frames.malformed_arp(rogue.rng, _forged_arp(rogue))


def _forged_lldp(rogue: Rogue) -> bytes:
    """Ryu's format in the name of any port of any switch, another vendor's, or a captured frame with another source."""
    me = rogue.order.me.hardware
    what = rogue.rng.random()
    if what < 0.6:
        dpid = rogue.rng.choice(list(rogue.order.switches))
        port = rogue.rng.choice((*rogue.order.switches[dpid], rogue.rng.getrandbits(16)))
        return frames.ryu_lldp(me, dpid, port)
    if what < 0.8 or not rogue.order.frames:
        return frames.foreign_lldp(rogue.rng, me)
    return _captured(rogue)[:6] + me + _captured(rogue)[12:]


def _captured(rogue: Rogue) -> bytes:
    """Return a captured discovery frame; if there is none, one in Ryu's format."""
    if not rogue.order.frames:
        return frames.ryu_lldp(rogue.order.me.hardware, *next(iter(_ports(rogue))))
    return bytes.fromhex(rogue.rng.choice(rogue.order.frames))


def _ports(rogue: Rogue) -> Iterator[tuple[int, int]]:
    yield from ((dpid, port) for dpid, ports in rogue.order.switches.items() for port in ports)


def _malformed_lldp(rogue: Rogue) -> bytes:
    return frames.malformed_lldp(rogue.rng, _captured(rogue))


def _odd(rogue: Rogue) -> bytes:
    return frames.odd_frame(rogue.rng, rogue.order.me, list(rogue.order.victims))


def _flood_of(made: Callable[[Rogue], bytes], rogue: Rogue) -> None:
    """Send the same few hundred frames repeatedly, since building frames is slower than sending them."""
    drawn = [made(rogue) for _ in range(300)]
    _send(rogue, lambda rogue: rogue.rng.choice(drawn), per_second=FLOOD_PER_SECOND)


def relayed_lldp(rogue: Rogue) -> None:
    """Relay discovery frames from a cable to a host's port immediately.

    This is the strongest attack of a host, since it requires access to every frame on the cable.
    """
    listening = [_raw(name, ETH_LLDP) for name in rogue.order.cables]
    with _own(rogue) as out:
        for each in listening:
            each.setblocking(False)
        while rogue.going:
            for each in listening:
                with suppress(BlockingIOError):
                    while rogue.going:
                        _put(rogue, out, each.recv(frames.LONGEST_FRAME))
            time.sleep(min(BURST_SECONDS, rogue.left))
    for each in listening:
        each.close()


ATTACKS: dict[str, Attack] = {
    "forged arp": partial(_send, made=_forged_arp),
    "poisonous arp": partial(_send, made=_poisonous_arp),
    "random arp": partial(_send, made=_random_arp, per_second=1000.0),
    "malformed arp": partial(_send, made=_malformed_arp),
    "forged lldp": partial(_send, made=_forged_lldp),
    "replayed lldp": partial(_send, made=_captured),
    "relayed lldp": relayed_lldp,
    "malformed lldp": partial(_send, made=_malformed_lldp),
    "odd frames": partial(_send, made=_odd),
    "flood of arp": partial(_flood_of, _random_arp),
    "flood of forged arp": partial(_flood_of, _forged_arp),
    "flood of lldp": partial(_flood_of, _forged_lldp),
    "flood of odd frames": partial(_flood_of, _odd),
}
