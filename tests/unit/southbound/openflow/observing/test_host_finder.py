"""The finder of hosts under floods: what it keeps, what it sends, and how often it asks for a new plan."""

from __future__ import annotations

import dataclasses
import random
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest

from controller import ryu_compat

ryu_compat.prepare()

from controller.model.fabric import Fabric  # noqa: E402
from controller.model.files.clos import clos  # noqa: E402
from controller.model.network_state import Location, PortId  # noqa: E402 (Ryu first)
from controller.model.switch_key import SwitchKey  # noqa: E402
from controller.southbound.cabling.place_hosts import place_hosts  # noqa: E402
from controller.southbound.hosts.intended_hosts import IntendedHosts  # noqa: E402
from controller.southbound.limits.packet_load import PacketLoad  # noqa: E402
from controller.southbound.openflow.connections.packet_in import PacketIn  # noqa: E402
from controller.southbound.openflow.observing import arp  # noqa: E402
from controller.southbound.openflow.observing.discovery import Discovery  # noqa: E402
from controller.southbound.openflow.observing.host_finder import CHANGE_INTERVAL, HostFinder  # noqa: E402

PROBES_PER_SECOND = 100


class World:
    """A finder on two switches of ten ports, and hosts that answer what it sends."""

    def __init__(self, fabric: Fabric | None = None) -> None:
        self.now = 100.0
        self.sent: list[tuple[PortId, arp.Heard]] = []
        self.changes = 0
        self.takes = True
        self.hosts: dict[PortId, tuple[str, str]] = {}
        self.load = PacketLoad(lambda: self.now)
        hosts = None if fabric is None else IntendedHosts.of(fabric)
        self.discovery = Discovery(lambda: self.now, loud=self.load.loud, hosts=hosts)
        for dpid in (1, 2) if fabric is None else (leaf.dpid for leaf in fabric.leaves):
            ports = [SimpleNamespace(port_no=n, config=0, state=0, curr_speed=0) for n in range(1, 11)]
            self.discovery.switch_entered(dpid, ports)
        self.finder = HostFinder(
            self.discovery,
            datapath=self.datapath,
            clock=lambda: self.now,
            probes_per_second=PROBES_PER_SECOND,
            load=self.load,
            dropped={},
            changed=self.changed,
        )

    def changed(self) -> None:
        self.changes += 1

    def datapath(self, dpid: SwitchKey) -> Any:
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
        assert isinstance(at.switch, int)
        self.finder.packet(at.switch, PacketIn(at.port, 0, 0, frame))

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


def test_each_port_of_a_bond_is_found_in_its_network_and_answered_for_there() -> None:
    whole = clos(1, 2, 1, planes=2, bond=True)
    hosts = tuple(dataclasses.replace(host, port=None) for host in whole.hosts)
    fabric = dataclasses.replace(whole, hosts=hosts)
    world = World(fabric)
    world.finder.fabric = fabric
    where = {PortId(1, 3): 0, PortId(2, 4): 1, PortId(3, 5): 0, PortId(4, 6): 1}
    world.hosts = {at: (hosts[i].ip, hosts[i].mac) for at, i in where.items()}
    # The first round asks at no port, since the file names none; the next one asks everywhere.
    for _ in range(60):
        world.now += 0.1
        world.finder._look()
    places = {ip: place.at for ip, place in world.discovery.hosts.places().items()}
    assert places == {
        "10.0.1.1": PortId(1, 3),
        "10.0.2.1": PortId(2, 4),
        "10.0.1.1%1": PortId(3, 5),
        "10.0.2.1%1": PortId(4, 6),
    }
    placed, findings, unplaced = place_hosts(fabric, IntendedHosts.of(fabric), world.discovery.snapshot(), None)
    assert [(host.leaf, host.port) for host in placed] == [("leaf1", 3), ("leaf2", 4), ("leaf3", 5), ("leaf4", 6)]
    assert (findings, unplaced) == ([], [])
    world.sent.clear()
    world.asks(PortId(4, 6), hosts[1].ip, hosts[1].mac, hosts[0].ip)
    ((at, told),) = [sent for sent in world.sent if not sent[1].request]
    assert (at, told.ip, told.mac, told.target) == (PortId(4, 6), hosts[0].ip, hosts[0].mac, hosts[1].ip)


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


def test_a_guessed_answer_places_no_host() -> None:
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
