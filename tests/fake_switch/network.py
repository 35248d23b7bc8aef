"""The cables between fake switches and their hosts: packets of the controller's, and those that tests send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ryu.lib import addrconv
from ryu.lib.packet import arp, ethernet, packet
from ryu.lib.packet.ether_types import ETH_TYPE_ARP

from controller.model.fabric import Fabric, Host
from controller.southbound.openflow.observing.arp import BROADCAST, NOBODY_MAC
from controller.southbound.rules.interpreter import Choose, Packet, RuleInterpreter, Walk
from controller.southbound.rules.rule import Rule, ToController
from controller.southbound.rules.rule_set import RuleSet, SwitchRules
from tests.fake_switch import encode
from tests.fake_switch.flow_table import Entry
from tests.fake_switch.switch import FakeSwitch

PACKET_BYTES = 100
"""Size of a packet that a test sends, as far as counters are concerned."""

ICMP = 1


class FakeHost:
    """A host's network stack: it answers for its address, and remembers who has answered it."""

    def __init__(self, host: Host) -> None:
        self.name, self.ip, self.mac = host.name, host.ip, host.mac
        self.neighbours: dict[str, str] = {}

    def asks_for(self, ip: str) -> bytes:
        """Return an ARP request."""
        return _arp_frame(BROADCAST, arp.ARP_REQUEST, self.mac, self.ip, NOBODY_MAC, ip)

    def hears(self, frame: bytes) -> bytes | None:
        """Receive a frame and return the answer. Requests may be probes without a sender (RFC 5227, section 2.1.1)."""
        if _eth_type(frame) != ETH_TYPE_ARP:
            return None
        heard = _arp_of(frame)
        if heard.opcode == arp.ARP_REPLY and heard.dst_ip == self.ip:
            self.neighbours[heard.src_ip] = heard.src_mac
        if heard.opcode == arp.ARP_REQUEST and heard.dst_ip == self.ip:
            return _arp_frame(heard.src_mac, arp.ARP_REPLY, self.mac, self.ip, heard.src_mac, heard.src_ip)
        return None


class _Held(Mapping[int, SwitchRules]):
    """What each switch holds now, by datapath id."""

    def __init__(self, switches: Mapping[str, FakeSwitch]) -> None:
        self._switches = {switch.dpid: switch for switch in switches.values()}

    def __getitem__(self, dpid: int) -> SwitchRules:
        return self._switches[dpid].everything()

    def __iter__(self) -> Iterator[int]:
        return iter(self._switches)

    def __len__(self) -> int:
        return len(self._switches)


class FakeNetwork:
    """Carries packets by what the switches hold.

    Args:
        to_controller: called with the switch's name and the packet-in message.
    """

    def __init__(
        self, fabric: Fabric, switches: Mapping[str, FakeSwitch], to_controller: Callable[[str, bytes], None]
    ) -> None:
        self.fabric, self.switches = fabric, switches
        self.wiring = RuleInterpreter(fabric)
        self.hosts = {host.name: FakeHost(host) for host in fabric.hosts}
        self._to_controller = to_controller
        self._rules = RuleSet(_Held(switches))
        self.ports_changed()

    def ports_changed(self) -> None:
        """Ports have gone down or come up."""
        self.wiring.down = {
            (name, port.number)
            for name, switch in self.switches.items()
            for port in switch.ports.values()
            if not port.up
        }

    def walk(self, sent: Packet, source: str, choose: Choose = min) -> Walk:
        """Send a packet from a host. Rules and ports on its way count it."""
        if self._at(source) in self.wiring.down:
            return Walk((), None, "the host has no carrier")
        walk, _, _ = self._carried(sent, *self._at(source), PACKET_BYTES, choose)
        return walk

    def lost(self, packets: Iterable[tuple[str, str, Packet]]) -> Iterator[str]:
        """Which of some packets (from a host, to a host) would not arrive now, and why. Nothing counts them."""
        for source, target, sent in packets:
            for choose in (min, max):
                walk = self.wiring.walk(self._rules, sent, source=source, choose=choose)
                if walk.host != target:
                    yield f"{source} to {target}, {dict(sent)}: {walk}"

    def out_of(self, switch: str, port: int, frame: bytes) -> None:
        """Send a frame out of a switch's port."""
        if (switch, port) in self.wiring.down or port not in self.switches[switch].ports:
            return
        self.switches[switch].ports[port].sent(len(frame))
        if (switch, port) in self.wiring.hosts:
            self._reaches(self.wiring.hosts[switch, port], frame)
        elif (switch, port) in self.wiring.peer:
            self._into(*self.wiring.peer[switch, port], frame)

    def ping(self, source: str, target: str, choose: Choose = min) -> bool:
        """Whether an echo request reaches a host and its answer comes back, after each has resolved the other."""
        ends = (self.hosts[source], self.hosts[target]), (self.hosts[target], self.hosts[source])
        for a, b in ends:
            if b.ip not in a.neighbours:
                self._into(*self._at(a.name), a.asks_for(b.ip))
            if a.neighbours.get(b.ip) != b.mac:
                return False
            echo: Packet = {"eth_type": 0x0800, "ip_proto": ICMP, "ipv4_src": a.ip, "ipv4_dst": b.ip}
            if self.walk(echo, a.name, choose).host != b.name:
                return False
        return True

    def _at(self, host: str) -> tuple[str, int]:
        known = self.fabric.hosts[self.fabric.host_index[host]]
        assert known.port is not None
        return known.leaf, known.port

    def _into(self, switch: str, port: int, frame: bytes) -> None:
        """Receive a frame at a port."""
        if (switch, port) in self.wiring.down:
            return
        walk, (last, at), met = self._carried(_fields(frame), switch, port, len(frame), min)
        if walk.host is not None:
            self._reaches(walk.host, frame)
        elif met is not None and any(isinstance(action, ToController) for action in met[0].actions):
            self._to_controller(last, encode.packet_in(frame, at, met[1]))

    def _reaches(self, host: str, frame: bytes) -> None:
        answer = self.hosts[host].hears(frame)
        if answer is not None:
            self._into(*self._at(host), answer)

    def _carried(
        self, sent: Packet, switch: str, port: int, octets: int, choose: Choose
    ) -> tuple[Walk, tuple[str, int], tuple[Rule, Entry] | None]:
        """Walk and count; also the last switch with the port into it, and the last rule that was met."""
        met: list[tuple[Rule, Entry]] = []

        def seen(name: str, rule: Rule) -> None:
            met.append((rule, self.switches[name].count(rule.key, octets)))

        walk = self.wiring.walk_from(self._rules, sent, switch, port, choose=choose, seen=seen)
        entered = [(switch, port)]
        for hop in walk.hops:
            ports = self.switches[hop.switch].ports
            if hop.out_port in ports:
                ports[hop.out_port].sent(octets)
            if (hop.switch, hop.out_port) in self.wiring.peer:
                entered.append(self.wiring.peer[hop.switch, hop.out_port])
        for at in entered:
            if at not in self.wiring.down:
                self.switches[at[0]].ports[at[1]].received(octets)
        return walk, entered[-1], met[-1] if met else None


def _eth_type(frame: bytes) -> int:
    return int.from_bytes(frame[12:14], "big")


def _fields(frame: bytes) -> dict[str, int | str]:
    """Header fields by OpenFlow name; of what lies behind Ethernet, those of ARP."""
    fields: dict[str, int | str] = {
        "eth_dst": addrconv.mac.bin_to_text(frame[:6]),
        "eth_src": addrconv.mac.bin_to_text(frame[6:12]),
        "eth_type": _eth_type(frame),
    }
    if _eth_type(frame) == ETH_TYPE_ARP:
        heard = _arp_of(frame)
        fields |= {"arp_op": heard.opcode, "arp_spa": heard.src_ip, "arp_tpa": heard.dst_ip}
    return fields


def _arp_of(frame: bytes) -> Any:
    return arp.arp.parser(frame[14:])[0]


def _arp_frame(to: str, opcode: int, mac: str, ip: str, target_mac: str, target_ip: str) -> bytes:
    frame = packet.Packet()
    frame.add_protocol(ethernet.ethernet(dst=to, src=mac, ethertype=ETH_TYPE_ARP))
    frame.add_protocol(arp.arp(opcode=opcode, src_mac=mac, src_ip=ip, dst_mac=target_mac, dst_ip=target_ip))
    frame.serialize()
    return bytes(frame.data)
