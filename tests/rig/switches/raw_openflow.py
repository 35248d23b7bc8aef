"""OpenFlow 1.3 by hand: messages to an Open vSwitch bridge or to a fake switch, and all that comes back."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.fabric import Fabric
from controller.southbound.rules.rule import COOKIE_PREFIX
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire.message_check import check
from emulation.lab import Lab
from tests import openflow_writer as writer
from tests.fake_switch.decode import PROTOCOL, header
from tests.fake_switch.held import groups_of, rules_of
from tests.fake_switch.switch import FakeSwitch

PATIENCE_SECONDS = 10.0
NO_ANSWERS = (ofp.OFPT_HELLO, ofp.OFPT_BARRIER_REPLY, ofp.OFPT_PACKET_IN, ofp.OFPT_PORT_STATUS)
"""What comes unasked, or always."""


class Wire(Protocol):
    """Where messages go."""

    def exchange(self, data: bytes, last: int) -> list[bytes]:
        """Send messages; what comes back, up to the barrier reply with transaction id ``last``."""
        ...


class BridgeWire:
    """The management socket of an Open vSwitch bridge, past its controller."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._socket.connect(str(path))
        # A connection like this one hears of removed flows once it has said how much of a packet it wants.
        tell_all = parser.OFPSetConfig(PROTOCOL, 0, 128)
        tell_all.serialize()
        self._socket.sendall(writer.hello() + bytes(tell_all.buf))

    def exchange(self, data: bytes, last: int) -> list[bytes]:
        self._socket.sendall(data)
        replies: list[bytes] = []
        while not replies or (header(replies[-1]).type, header(replies[-1]).xid) != (ofp.OFPT_BARRIER_REPLY, last):
            head = self._read(8)
            replies.append(head + self._read(header(head).length - 8))
        return replies

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "the switch has closed the connection"
            data += piece
        return data


def bridge_socket(lab: Lab, switch: str) -> Path:
    """The management socket of a lab's switch."""
    return lab.ovs.folder / f"{lab.wiring.switch(switch).bridge}.mgmt"


class FakeWire:
    """A fake switch without a network."""

    def __init__(self, switch: FakeSwitch) -> None:
        self._switch = switch

    def exchange(self, data: bytes, last: int) -> list[bytes]:
        replies: list[bytes] = []
        while data:
            size = header(data).length
            replies += self._switch.receive(data[:size])
            data = data[size:]
        return replies


class Talk:
    """A conversation with a switch."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._xids = count(1)
        self.removed: list[Any] = []
        """What it has said of removed flows so far; Open vSwitch may say so after the barrier."""

    def say(self, sent: Iterable[Any]) -> list[Any]:
        """Send messages (Ryu's objects) and a barrier; what answers them, by order of arrival.

        Replies and errors carry in ``xid`` the place of the message that they answer: 0 is the first.
        """
        data = bytearray()
        first = next(self._xids)
        xid = first
        for message in (*sent, parser.OFPBarrierRequest(PROTOCOL)):
            message.xid = xid
            message.buf = bytearray()
            message.serialize()
            data += message.buf
            xid = next(self._xids)
        replies = []
        for reply in self._wire.exchange(bytes(data), xid - 1):
            # What real switches say is what the controller lets in.
            check(reply)
            head = header(reply)
            if head.type in NO_ANSWERS:
                continue
            read = parser.msg_parser(PROTOCOL, head.version, head.type, head.length, head.xid, reply)
            if isinstance(read, parser.OFPFlowRemoved):
                self.removed.append(read)
                continue
            read.xid = head.xid - first
            replies.append(read)
        return replies

    def flows(self) -> list[Any]:
        """Flow statistics of every entry (Ryu's objects)."""
        return self._entries(parser.OFPFlowStatsRequest(PROTOCOL))

    def groups(self) -> list[Any]:
        """Every group's description (Ryu's objects)."""
        return self._entries(parser.OFPGroupDescStatsRequest(PROTOCOL))

    def ours(self) -> SwitchRules:
        """The rules and groups that are the controller's."""
        ours = [entry for entry in self.flows() if entry.cookie >> 48 == COOKIE_PREFIX]
        return SwitchRules(rules_of(ours), groups_of(self.groups()))

    def clear(self) -> None:
        """Remove every flow and group."""
        everything = {"out_port": ofp.OFPP_ANY, "out_group": ofp.OFPG_ANY, "table_id": ofp.OFPTT_ALL}
        self.say(
            [
                parser.OFPFlowMod(PROTOCOL, command=ofp.OFPFC_DELETE, **everything),
                parser.OFPGroupMod(PROTOCOL, ofp.OFPGC_DELETE, ofp.OFPGT_ALL, ofp.OFPG_ALL),
            ]
        )

    def _entries(self, request: Any) -> list[Any]:
        return [entry for part in self.say([request]) for entry in part.body]


@contextmanager
def talks_with_switches(lab: Lab, fabric: Fabric) -> Iterator[dict[int, Talk]]:
    """Open an OpenFlow connection to each switch of a fabric; by dpid."""
    with ExitStack() as stack:
        found = {}
        for switch in fabric.switches:
            wire = BridgeWire(bridge_socket(lab, switch.name))
            stack.callback(wire.close)
            found[switch.dpid] = Talk(wire)
        yield found
