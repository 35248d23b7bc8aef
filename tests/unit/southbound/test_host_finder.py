"""The finder of hosts under floods: what it keeps, what it sends, and how often it asks for a new plan."""

from __future__ import annotations

import random
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest

from controller import ryu_compat

ryu_compat.prepare()

from controller.model.network_state import Location, PortId  # noqa: E402 (Ryu first)
from controller.southbound.openflow import arp  # noqa: E402
from controller.southbound.openflow.discovery import Discovery  # noqa: E402
from controller.southbound.openflow.hosts import CHANGE_INTERVAL, HostFinder  # noqa: E402
from controller.southbound.openflow.packet_in import PacketIn  # noqa: E402
from controller.southbound.packet_load import PacketLoad  # noqa: E402

PROBES_PER_SECOND = 100


class World:
    """A finder on two switches of ten ports, and hosts that answer what it sends."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[tuple[PortId, arp.Heard]] = []
        self.changes = 0
        self.takes = True
        self.hosts: dict[PortId, tuple[str, str]] = {}
        self.load = PacketLoad(lambda: self.now)
        self.discovery = Discovery(lambda: self.now, loud=self.load.loud)
        for dpid in (1, 2):
            ports = [SimpleNamespace(port_no=n, config=0, state=0, curr_speed=0) for n in range(1, 11)]
            self.discovery.switch_entered(dpid, ports)
        self.finder = HostFinder(
            self.discovery, datapath=self.datapath, clock=lambda: self.now,
            probes_per_second=PROBES_PER_SECOND, load=self.load, dropped={}, changed=self.changed,
        )  # fmt: skip

    def changed(self) -> None:
        self.changes += 1

    def datapath(self, dpid: int) -> Any:
        def offer_msg(message: Any) -> bool:
            if not self.takes:
                return False
            at = PortId(dpid, message.actions[0].port)
            heard = arp.parse(message.data)
            assert heard is not None
            self.sent.append((at, heard))
            ip, mac = self.hosts.get(at, ("", ""))
            if heard.request and heard.target == ip:
                self.hears(at, arp.frame(heard.mac, arp.REPLY, mac, ip, heard.mac, heard.ip))
            return True

        return SimpleNamespace(offer_msg=offer_msg, ofproto=None, ofproto_parser=None)

    def hears(self, at: PortId, frame: bytes) -> None:
        self.finder.packet(at.dpid, PacketIn(at.port, 0, 0, frame))

    def asks(self, at: PortId, ip: str, mac: str, target: str) -> None:
        self.hears(at, arp.frame(arp.BROADCAST, arp.REQUEST, mac, ip, arp.NOBODY_MAC, target))

    def passes(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.finder._tick(self.now)


HONEST, ATTACKER = PortId(1, 1), PortId(2, 5)
IP, MAC = "10.0.1.1", "02:00:00:00:01:01"


def random_claim(rng: random.Random) -> tuple[str, str, str]:
    ip, target = (".".join(map(str, (10, *rng.randbytes(3)))) for _ in range(2))
    return ip, (b"\x02" + rng.randbytes(5)).hex(":"), target


def test_a_flood_of_forged_arp_keeps_nothing_asks_for_no_plan_and_sends_no_more_than_is_allowed() -> None:
    world, rng = World(), random.Random(1)
    world.hosts[HONEST] = (IP, MAC)
    tracemalloc.start()
    try:
        for step in range(200):
            for _ in range(100):
                world.asks(ATTACKER, *random_claim(rng))
            world.sent.clear()
            world.passes(0.1)
            assert len(world.sent) <= 1.2 * PROBES_PER_SECOND
            if step == 50:
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
            if step == 100:
                world.asks(HONEST, IP, MAC, "10.0.9.9")
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 200_000
    assert world.changes == 1
    assert world.discovery.hosts.places() == {IP: Location(MAC, HONEST)}


def test_frames_that_are_not_sound_are_counted_and_change_nothing() -> None:
    world = World()
    frame = arp.frame(arp.BROADCAST, arp.REQUEST, MAC, IP, arp.NOBODY_MAC, "10.0.9.9")
    for length in range(14, 42):
        world.hears(ATTACKER, frame[:length])
    world.hears(ATTACKER, b"\x33" * 60)
    world.passes(2)
    assert world.finder.counts().malformed == 42 - 14
    assert world.finder.counts().claims == 0
    assert world.sent == []


def test_an_answer_that_was_guessed_places_nobody() -> None:
    world = World()
    for tha in ("0e:15:00:00:00:01", "02:00:00:00:fa:15", arp.BROADCAST, arp.NOBODY_MAC):
        world.hears(ATTACKER, arp.frame(tha, arp.REPLY, MAC, IP, tha, arp.NOBODY))
    world.passes(10)
    assert world.discovery.hosts.places() == {}


def test_hosts_that_appear_together_are_reported_a_few_times() -> None:
    world = World()
    for n in range(1, 11):
        world.hosts[PortId(1, n)] = (f"10.0.1.{n}", f"02:00:00:00:01:{n:02x}")
        world.asks(PortId(1, n), *world.hosts[PortId(1, n)], "10.0.9.9")
    world.passes(2)
    assert len(world.discovery.hosts) == 10
    assert world.changes <= 2 / CHANGE_INTERVAL + 1


@pytest.mark.parametrize("takes", [True, False])
def test_silence_of_a_host_that_could_not_be_asked_means_nothing(takes: bool) -> None:
    world = World()
    world.hosts[HONEST] = (IP, MAC)
    world.asks(HONEST, IP, MAC, "10.0.9.9")
    world.passes(1)
    assert world.discovery.hosts.place(IP) == Location(MAC, HONEST)
    del world.hosts[HONEST]
    world.takes = takes
    world.passes(20)
    assert world.discovery.hosts.is_away(IP) == takes
