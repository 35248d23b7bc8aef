"""The process of many switches: one epoll loop, and commands as JSON lines on standard input.

Usage: ``python -m tests.fake_switch.raw.process LEAVES SPINES HOSTS_PER_LEAF PORT...``. Each switch connects to each
port of 127.0.0.1, and takes changes of a master or an equal only. Each command line (``{"do": "connect"}``) is answered
by one line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any

from controller.model.files.clos import clos
from controller.southbound.rules.interpreter import Packet, RuleInterpreter
from controller.southbound.rules.rule_set import RuleSet
from controller.southbound.wire.rule_reading import RuleReader
from tests.fake_switch.raw.flood import Flood
from tests.fake_switch.raw.switch import Entry, RawSwitch, arp_answer
from tests.openflow_writer import (
    ERROR,
    FEATURES_REPLY,
    FLOW_MOD,
    GROUP_MOD,
    HEADER,
    HELLO,
    METER_MOD,
    PACKET_OUT,
    PORT_STATUS,
    ROLE,
    ROLE_REPLY,
    ROLE_REQUEST,
    in_port_match,
    message,
    packet_in,
)

CONNECTS_AT_ONCE = 32
LOOK_SECONDS = 0.05
"""Between two tries to reach a controller that does not listen."""
READ_BYTES = 1 << 18
IN_A_CHILD = ("pairs",)
"""Commands that take long and change nothing."""

EQUAL, MASTER, SLAVE = 1, 2, 3
NO_GENERATION = 0xFFFFFFFFFFFFFFFF
CHANGES = (FLOW_MOD, GROUP_MOD, METER_MOD, PACKET_OUT)
STALE, IS_SLAVE = struct.pack("!HH", 11, 0), struct.pack("!HH", 1, 10)


class Line:
    """The connection of one switch to one controller."""

    __slots__ = ("heard", "out", "port", "role", "sock", "switch", "told")

    def __init__(self, switch: RawSwitch, port: int, sock: socket.socket) -> None:
        self.switch, self.port, self.sock = switch, port, sock
        self.role = EQUAL
        self.heard = b""
        self.out = bytearray()
        self.told = False


class Fabric:
    """All switches, their cables and connections."""

    def __init__(self, leaves: int, spines: int, hosts: int, *controllers: int) -> None:
        self.fabric = clos(spines, leaves, hosts)
        self.controllers = controllers
        self.wiring = RuleInterpreter(self.fabric)
        ports: dict[str, list[int]] = {each.name: [] for each in self.fabric.switches}
        for name, number in (*self.wiring.hosts, *self.wiring.peer):
            ports[name].append(number)
        self.switches: dict[str, RawSwitch] = {}
        for each in self.fabric.switches:
            switch = RawSwitch(each.name, each.dpid, sorted(ports[each.name]), lambda port, frame: None)
            switch._sends_out = self._sender(switch)
            self.switches[each.name] = switch
        self.peers = {
            (name, number): (self.switches[far], far_number)
            for (name, number), (far, far_number) in self.wiring.peer.items()
        }
        self.hosts = {
            (host.leaf, host.port): (IPv4Address(host.ip).packed, bytes.fromhex(host.mac.replace(":", "")))
            for host in self.fabric.hosts
        }
        self.reader = RuleReader()
        self.lines: dict[tuple[str, int], Line] = {}
        self.by_fd: dict[int, Line] = {}
        self.poll = select.epoll()
        self.wanted = False
        self.listening: set[int] = set()
        self.look_at = dict.fromkeys(controllers, 0.0)
        self.generations: dict[str, int] = {}
        self.tampered: dict[str, tuple[bytes, bytes]] = {}
        """Of a switch with a rule that was changed by hand: its key, and its match and instructions before."""
        self.silent: set[tuple[str, int]] = set()
        self.frames = 0
        self.flood: Flood | None = None
        self.full: dict[str, int] = {}
        """Of a switch that holds what is expected: its count of changes then."""
        self.expected: dict[str, tuple[dict[bytes, bytes], dict[int, bytes]]] = {}
        self.commands = b""

    def _sender(self, switch: RawSwitch) -> Any:
        ends: dict[int, Any] = {}

        def sends_out(port: int, frame: bytes) -> None:
            if port not in ends:
                ends[port] = self.peers.get((switch.name, port)) or self.hosts.get((switch.name, port))
            end = ends[port]
            if end is None or (switch.name, port) in self.silent:
                return
            far, far_port = end
            if isinstance(far, bytes):
                answer = arp_answer(frame, far, far_port)
                if answer is not None:
                    self._arrives(switch, port, answer)
            else:
                self.frames += 1
                self._arrives(far, far_port, frame)

        return sends_out

    def _arrives(self, switch: RawSwitch, port: int, frame: bytes) -> None:
        cookie = switch.sends_here(port, frame)
        if cookie is not None:
            for line in self._lines_of(switch):
                if line.role != SLAVE:
                    self._send(line, packet_in(frame, in_port_match(port), cookie=cookie))

    def _lines_of(self, switch: RawSwitch) -> Iterator[Line]:
        for port in self.controllers:
            if (switch.name, port) in self.lines:
                yield self.lines[switch.name, port]

    # -- connections -----------------------------------------------------------------------------------------

    def _connect_some(self, port: int) -> None:
        now = time.monotonic()
        if port not in self.listening:
            if now < self.look_at[port]:
                return
            self.look_at[port] = now + LOOK_SECONDS
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) != 0:
                    return
            self.listening.add(port)
        waiting = [switch for name, switch in self.switches.items() if (name, port) not in self.lines]
        for switch in waiting[:CONNECTS_AT_ONCE]:
            sock = socket.socket()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.connect_ex(("127.0.0.1", port))
            line = Line(switch, port, sock)
            self.lines[switch.name, port] = self.by_fd[sock.fileno()] = line
            self.poll.register(sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
            line.out += message(HELLO, 0)

    def _close(self, line: Line) -> None:
        if self.lines.get((line.switch.name, line.port)) is line:
            del self.lines[line.switch.name, line.port]
        self.by_fd.pop(line.sock.fileno(), None)
        self.poll.unregister(line.sock.fileno())
        line.sock.close()

    def _send(self, line: Line, data: bytes) -> None:
        if not line.out:
            self.poll.modify(line.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
        line.out += data

    def _flush(self, line: Line) -> None:
        try:
            sent = line.sock.send(memoryview(line.out)[: 1 << 20].tobytes())
        except BlockingIOError:
            return
        except OSError:
            self._lost(line)
            return
        del line.out[:sent]
        if not line.out:
            self.poll.modify(line.sock.fileno(), select.EPOLLIN)

    def _lost(self, line: Line) -> None:
        self._close(line)
        # Whoever is gone may not listen any more: look before all of them try.
        self.listening.discard(line.port)

    def _receive(self, line: Line) -> None:
        try:
            data = line.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost(line)
            return
        data = line.heard + data if line.heard else data
        at, end, take = 0, len(data), line.switch.receive
        answers: list[bytes] = []
        while at + 8 <= end:
            _, kind, length, xid = HEADER.unpack_from(data, at)
            if at + length > end:
                break
            body = data[at : at + length]
            if kind == ROLE_REQUEST:
                answers.append(self._role(line, xid, body))
            elif line.role == SLAVE and kind in CHANGES:
                answers.append(message(ERROR, xid, IS_SLAVE + body[:64]))
            else:
                answers += take(kind, xid, body)
            at += length
        line.heard = data[at:]
        if answers:
            if not line.told and any(answer[1] == FEATURES_REPLY for answer in answers):
                line.told = True
            self._send(line, b"".join(answers))

    def _role(self, line: Line, xid: int, data: bytes) -> bytes:
        """Answer a request for a role (OpenFlow 1.3.5, section 6.3.6)."""
        name = line.switch.name
        role, generation = ROLE.unpack_from(data, 8)
        if role in (MASTER, SLAVE):
            if generation < self.generations.get(name, 0):
                return message(ERROR, xid, STALE + data[:64])
            self.generations[name] = generation
            for other in self._lines_of(line.switch):
                if role == MASTER and other.role == MASTER:
                    other.role = SLAVE
        line.role = role or line.role
        return message(ROLE_REPLY, xid, ROLE.pack(line.role, self.generations.get(name, NO_GENERATION)))

    def run(self) -> None:
        """Serve until standard input ends."""
        self.poll.register(0, select.EPOLLIN)
        while True:
            missing = self.wanted and len(self.lines) < len(self.switches) * len(self.controllers)
            if missing:
                for port in self.controllers:
                    self._connect_some(port)
            flooding = self.flood is not None and not self.flood.is_over
            if self.flood is not None:
                self.flood.step(time.monotonic(), self._punt)
            for fd, events in self.poll.poll(0.01 if missing or flooding else 1.0):
                if fd == 0:
                    if not self._commands():
                        return
                    continue
                line = self.by_fd.get(fd)
                if line is None:
                    continue
                if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                    self._receive(line)
                if events & select.EPOLLOUT and self.by_fd.get(fd) is line and line.out:
                    self._flush(line)

    def _punt(self, name: str, packet: bytes) -> None:
        for line in self._lines_of(self.switches[name]):
            self._send(line, packet)

    # -- commands --------------------------------------------------------------------------------------------

    def _commands(self) -> bool:
        data = os.read(0, 1 << 16)
        if not data:
            return False
        *whole, self.commands = (self.commands + data).split(b"\n")
        for line in whole:
            asked = json.loads(line)
            do = asked.pop("do")
            if do in IN_A_CHILD and os.fork():
                # The child answers by what is held at this moment; the switches must not fall silent meanwhile.
                continue
            answer = getattr(self, f"do_{do}")(**asked)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
            if do in IN_A_CHILD:
                os._exit(0)
        return True

    def do_connect(self) -> dict[str, Any]:
        """Begin to connect, and stay connected from now on."""
        self.wanted = True
        return {}

    def do_state(self) -> dict[str, Any]:
        """Tell counters since the last ``reset``, what is held, and the processor time used so far (seconds)."""
        used = os.times()
        unknown: dict[str, int] = {}
        for switch in self.switches.values():
            for what, times in switch.unknown.items():
                unknown[what] = unknown.get(what, 0) + times
        return {
            "connected": sum(line.told for line in self.lines.values()),
            "mods": sum(switch.mods for switch in self.switches.values()),
            "most_mods": max(switch.mods for switch in self.switches.values()),
            "packet_outs": sum(switch.packet_outs for switch in self.switches.values()),
            "frames": self.frames,
            "rules": sum(len(switch.flows) for switch in self.switches.values()),
            "groups": sum(len(switch.groups) for switch in self.switches.values()),
            "readings": sum(switch.readings for switch in self.switches.values()),
            "read_rules": sum(switch.read_rules for switch in self.switches.values()),
            "unknown": unknown,
            "cpu": used.user + used.system,
        }

    def do_reset(self) -> dict[str, Any]:
        """Begin anew with counters."""
        for switch in self.switches.values():
            switch.mods = switch.packet_outs = switch.readings = switch.read_rules = 0
        self.frames = 0
        return {}

    def do_restart_empty(self) -> dict[str, Any]:
        """All switches lose connections, rules and groups at once, and connect again; what they held is expected."""
        self.expected = {name: switch.content() for name, switch in self.switches.items()}
        self.full.clear()
        self.do_reconnect()
        for switch in self.switches.values():
            switch.forget()
        return {}

    def do_reconnect(self) -> dict[str, Any]:
        """All switches lose their connections at once, and connect again; they keep what they hold."""
        for line in list(self.lines.values()):
            self._close(line)
        return {}

    def do_damage(self, switch: str, damaged: bool) -> dict[str, Any]:
        """Have a switch answer requests for all rules with an entry of an impossible length, or no longer."""
        self.switches[switch].damaged = damaged
        return {}

    def do_tamper(self, switch: str) -> dict[str, Any]:
        """Have the rule that a switch got last drop packets, as if by hand."""
        found = self.switches[switch]
        key, old = next(reversed(found.flows.items()))
        self.tampered[switch] = key, old.tail
        found.flows[key] = Entry(old.table, old.priority, old.cookie, old.match, old.size)
        return {}

    def do_repaired(self, switch: str) -> dict[str, Any]:
        """Tell whether a rule that was changed by hand is as it was before."""
        key, tail = self.tampered[switch]
        entry = self.switches[switch].flows.get(key)
        return {"repaired": entry is not None and entry.tail == tail}

    def do_filled(self) -> dict[str, Any]:
        """Tell how many switches do not hold what they held before ``restart_empty``."""
        lacking = 0
        for name, switch in self.switches.items():
            flows, groups = self.expected[name]
            if self.full.get(name) == switch.mods:
                continue
            if len(switch.flows) >= len(flows) and switch.content() == (flows, groups):
                self.full[name] = switch.mods
            else:
                lacking += 1
        return {"lacking": lacking}

    def do_pairs(self, count: int, seed: int) -> dict[str, Any]:
        """Tell which of some pairs of hosts on different leaves lose packets by the rules that are held now."""
        draw, hosts = random.Random(seed), self.fabric.hosts
        lost = []
        rules = RuleSet(_Held(self))
        for _ in range(count):
            a, b = draw.sample(range(len(hosts)), 2)
            packet: Packet = {"eth_type": 0x0800, "ip_proto": 1, "ipv4_src": hosts[a].ip, "ipv4_dst": hosts[b].ip}
            for choose in (min, max):
                walk = self.wiring.walk(rules, packet, source=hosts[a].name, choose=choose)
                if walk.host != hosts[b].name:
                    lost.append(f"{hosts[a].name} to {hosts[b].name}: {walk.end}")
                    break
        return {"lost": lost}

    def do_port(self, switch: str, port: int, up: bool) -> dict[str, Any]:
        """Tell the controller that a port is up or down."""
        found = self.switches[switch]
        (found.down.discard if up else found.down.add)(port)
        for line in self._lines_of(found):
            self._send(line, message(PORT_STATUS, 0, b"\x02" + bytes(7) + found.port(port)))
        return {}

    def do_flood(self, leaves: int, per_second: float, packets: int, size: int) -> dict[str, Any]:
        """Begin to send packets of watch windows, each of a new flow; the windows that are held do not matter."""
        self.flood = Flood(self.fabric, leaves, per_second, packets, size)
        return {}

    def do_flooded(self) -> dict[str, Any]:
        """Tell how many of these were made, how many bytes wait to be sent, and whether that was all."""
        waiting = sum(len(line.out) for line in self.lines.values())
        assert self.flood is not None
        return {"sent": self.flood.sent, "waiting": waiting, "over": self.flood.is_over and not waiting}

    def do_silence(self, switch: str, port: int, silent: bool) -> dict[str, Any]:
        """A cable that carries nothing in one direction, from this port on, with its ports up."""
        (self.silent.add if silent else self.silent.discard)((switch, port))
        return {}


class _Held(dict[int, Any]):
    """What switches hold, read when it is looked at."""

    def __init__(self, fabric: Fabric) -> None:
        super().__init__()
        self._switches = {switch.dpid: switch for switch in fabric.switches.values()}
        self._reader = fabric.reader

    def get(self, dpid: int, default: Any = None) -> Any:
        return self._switches[dpid].held(self._reader)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    Fabric(*map(int, sys.argv[1:])).run()
