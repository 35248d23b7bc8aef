"""A packet's walk through a rule set: an implementation of OpenFlow's forwarding beside that of switches.

Compilers are tested by it: their rules must forward every packet exactly as the plan says. And it
finds the real paths of flows, given the rules that switches report (controller/telemetry/trace.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from typing import Any, NamedTuple

from controller.model.fabric import Fabric
from controller.southbound.rules.rule import (
    ETH_IPV6,
    ETH_MPLS,
    Action,
    Bundle,
    Output,
    PopMpls,
    PushMpls,
    Resubmit,
    Rule,
    SetDscp,
    SetEthDst,
    SetTrafficClass,
    ShiftIds,
    ToController,
    ToGroup,
)
from controller.southbound.rules.rule_set import RuleSet, SwitchRules

Packet = Mapping[str, int | str]
"""Header fields by OpenFlow name, without ``in_port`` and ``metadata``."""

Choose = Callable[[tuple[int, ...]], int]
"""Picks one of several live ports, as a hash would."""

Seen = Callable[[str, Rule], None]
"""Called with the name of each switch and each rule that the packet meets there, in order."""

_ETH_IPV4 = 0x0800

MAX_HOPS = 16
"""More switches than any loop-free walk through a Clos fabric visits."""

MAX_RESUBMITS = 64
"""As many as Open vSwitch does for one packet (``MAX_DEPTH``)."""


class Hop(NamedTuple):
    """The packet enters ``switch`` by ``in_port`` and leaves by ``out_port``."""

    switch: str
    in_port: int
    out_port: int


class Walk(NamedTuple):
    """A packet's hops and its end: at a host (its name), or ``None`` and the reason.

    ``dscp``: what rules have written into it; ``None``: no rule has.
    """

    hops: tuple[Hop, ...]
    host: str | None
    end: str
    dscp: int | None = None


class RuleInterpreter:
    """A fabric's wiring by port, and which of its ports are down."""

    def __init__(self, fabric: Fabric, down: Collection[tuple[str, int]] = ()) -> None:
        """Index the cables and host links by port; ``down`` adds ports to those that are down."""
        self.fabric = fabric
        self.down = set(down)
        self.key = {switch.name: switch.key for switch in fabric.switches}
        self.peer: dict[tuple[str, int], tuple[str, int]] = {}
        self.hosts: dict[tuple[str, int], str] = {}
        for cable in fabric.cables:
            if cable.lower_port is None or cable.upper_port is None:
                continue
            a, b = (cable.lower, cable.lower_port), (cable.upper, cable.upper_port)
            self.peer[a], self.peer[b] = b, a
            if not cable.up:
                self.down |= {a, b}
        for host in fabric.hosts:
            if host.port is not None:
                self.hosts[host.leaf, host.port] = host.name

    def walk(
        self, rules: RuleSet, packet: Packet, *, source: str, choose: Choose = min, seen: Seen | None = None
    ) -> Walk:
        """Follow a packet from a host until it is delivered, dropped, sent to the controller, or loops."""
        sender = self.fabric.hosts[self.fabric.host_index[source]]
        if sender.port is None:
            raise ValueError(f"the port of {source} is not known")
        return self.walk_from(rules, packet, sender.leaf, sender.port, choose=choose, seen=seen)

    def walk_from(
        self, rules: RuleSet, packet: Packet, switch: str, port: int, *, choose: Choose = min, seen: Seen | None = None
    ) -> Walk:
        """Follow a packet that comes in by any port of a switch."""
        hops: list[Hop] = []
        frame = _Frame(packet)
        while len(hops) < MAX_HOPS:
            out = self._forward(rules[self.key[switch]], switch, port, frame, choose, seen)
            if isinstance(out, str):
                return Walk(tuple(hops), None, out)
            hops.append(Hop(switch, port, out))
            if (switch, out) in self.down:
                return Walk(tuple(hops), None, "sent out of a port that is down")
            if (switch, out) in self.hosts:
                return Walk(tuple(hops), self.hosts[switch, out], "delivered", frame.dscp)
            if (switch, out) not in self.peer:
                return Walk(tuple(hops), None, "sent out of a port without a cable")
            switch, port = self.peer[switch, out]
        return Walk(tuple(hops), None, "loop")

    def every_walk(self, rules: RuleSet, packet: Packet, *, source: str, seen: Seen | None = None) -> Iterator[Walk]:
        """Yield one walk for each possible outcome of the hashes along the path; a single one if nothing is hashed.

        Args:
            rules: of all switches.
            packet: its header fields.
            source: name of the sending host.
            seen: called for each walk in turn, so with the rules of earlier ones again.
        """
        pending: list[tuple[int, ...]] = [()]
        while pending:
            script = pending.pop()
            asked: list[tuple[int, ...]] = []

            def choose(ports: tuple[int, ...], script: tuple[int, ...] = script, asked: list[Any] = asked) -> int:
                asked.append(ports)
                return script[len(asked) - 1] if len(asked) <= len(script) else ports[0]

            yield self.walk(rules, packet, source=source, choose=choose, seen=seen)
            taken = [*script, *(ports[0] for ports in asked[len(script) :])]
            for depth in range(len(asked) - 1, len(script) - 1, -1):
                pending += [(*taken[:depth], port) for port in reversed(asked[depth][1:])]

    def forward(
        self, held: SwitchRules, switch: str, port: int, packet: Packet, choose: Choose, seen: Seen | None = None
    ) -> int | str:
        """Return the port out of one switch, or the reason why there is none."""
        return self._forward(held, switch, port, _Frame(packet), choose, seen)

    def _forward(
        self, held: SwitchRules, switch: str, port: int, frame: _Frame, choose: Choose, seen: Seen | None
    ) -> int | str:
        frame.enters()
        at = _Visit(held, switch, frame, choose, seen, {"in_port": port})
        out = self._look_up(0, at)
        if out is None:
            return "dropped"
        # OpenFlow sends a packet back to its ingress port only by an explicit action.
        return "sent back out of its in-port" if out == port and not frame.may_return else out

    def _look_up(self, first: int, at: _Visit) -> int | str | None:
        """Do what the rules of a table, and of those that they lead to, say; ``None``: no port is said."""
        table: int | None = first
        while table is not None:
            rule = at.held.classifier.best(table, at.frame.fields() | at.own)
            if rule is not None and at.seen is not None:
                at.seen(at.switch, rule)
            if rule is None or (not rule.actions and rule.goto is None):
                return None
            if rule.metadata is not None:
                at.own["metadata"] = rule.metadata
            out = self._act(rule.actions, at)
            if out is not None:
                return out
            table = rule.goto
        return None

    def _act(self, actions: tuple[Action, ...], at: _Visit) -> int | str | None:
        """Execute actions; return the port out, or why the packet ends here; ``None``: it stays."""
        for action in actions:
            if isinstance(action, Output):
                return action.port
            if isinstance(action, ToController):
                return "sent to the controller"
            if isinstance(action, Bundle):
                live = tuple(port for port in action.ports if (at.switch, port) not in self.down)
                return at.choose(live) if live else "no live port"
            if isinstance(action, ToGroup):
                return self._hand_to(action, at)
            if isinstance(action, Resubmit):
                at.resubmits += 1
                if at.resubmits > MAX_RESUBMITS:
                    return "looked up too often"
                out = self._look_up(action.table, at)
                if out is not None:
                    return out
                continue
            refused = at.frame.change(action)
            if refused:
                return refused
        return None

    def _hand_to(self, action: ToGroup, at: _Visit) -> int | str | None:
        held, switch = at.held, at.switch
        group = held.groups.get(action.group)
        if group is None:
            return "no such group"
        if group.kind not in ("failover", "select"):
            # Foreign, read back from a switch.
            return "reached a group that fairspine does not use"
        live = [bucket for bucket in group.buckets if self._live(bucket.watch_port, bucket.watch_group, held, switch)]
        if not live:
            return "no live bucket"
        if group.kind == "failover":
            return self._act(live[0].actions, at)
        by_port = {action.port: bucket for bucket in live for action in bucket.actions if isinstance(action, Output)}
        if not by_port:
            return "reached a group that fairspine does not use"
        return self._act(by_port[at.choose(tuple(by_port))].actions, at)

    def _live(self, port: int | None, group: int | None, held: SwitchRules, switch: str) -> bool:
        if port is not None:
            return (switch, port) not in self.down
        if group is not None and group in held.groups:
            return any(self._live(b.watch_port, b.watch_group, held, switch) for b in held.groups[group].buckets)
        return False


@dataclass
class _Visit:
    """A packet at a switch: what is known of it there alone, and how often it was looked up again."""

    held: SwitchRules
    switch: str
    frame: _Frame
    choose: Choose
    seen: Seen | None
    own: dict[str, int | str] = field(default_factory=dict)
    resubmits: int = 0


class _Frame:
    """A packet on its way: its own header fields, behind labels with their traffic classes (the outermost last)."""

    def __init__(self, packet: Packet) -> None:
        self._packet = packet
        self._labels: list[tuple[int, int]] = []
        self.dscp: int | None = None
        self.may_return = False

    def enters(self) -> None:
        """Begin at another switch."""
        self.may_return = False

    def change(self, action: Action) -> str:
        """Do what an action does to the packet itself; return why it cannot be done, empty: it is done."""
        if isinstance(action, PushMpls):
            self.push(action.label)
        elif isinstance(action, SetDscp):
            return "" if self.set_dscp(action.code_point) else "set the DSCP of a packet that is not of IPv4"
        elif isinstance(action, SetTrafficClass):
            done = self.set_traffic_class(action.number)
            return "" if done else "set the traffic class of a missing label"
        elif isinstance(action, PopMpls):
            return "" if self.pop(action.eth_type) else "popped a missing label, or to a wrong type"
        elif isinstance(action, ShiftIds):
            return "" if self.shift(action.block_bits) else "shifted the ids of a packet that is not of IPv6"
        elif isinstance(action, SetEthDst):
            self._packet = {**self._packet, "eth_dst": action.mac}
        else:
            # A foreign rule, read back from a switch.
            return "reached an action that fairspine does not use"
        return ""

    def shift(self, block_bits: int) -> bool:
        """Remove the first id behind the block; whether the packet is of IPv6, and has no label."""
        if self._labels or self._packet.get("eth_type") != ETH_IPV6:
            return False
        address = int(IPv6Address(str(self._packet["ipv6_dst"])))
        below = (1 << (128 - block_bits)) - 1
        shifted = address & ~below | (address << 16) & below
        self._packet = {**self._packet, "ipv6_dst": str(IPv6Address(shifted))}
        self.may_return = True
        return True

    def fields(self) -> dict[str, int | str]:
        """Return the fields that a switch sees: behind a label nothing but the next one."""
        if not self._labels:
            return dict(self._packet)
        ethernet = {name: value for name, value in self._packet.items() if name in ("eth_src", "eth_dst")}
        label, traffic_class = self._labels[-1]
        bottom = int(len(self._labels) == 1)
        return {**ethernet, "eth_type": ETH_MPLS, "mpls_label": label, "mpls_tc": traffic_class, "mpls_bos": bottom}

    def set_dscp(self, code_point: int) -> bool:
        """Write the DSCP; whether the packet is of IPv4, and has no label."""
        if self._labels or self._packet.get("eth_type") != _ETH_IPV4:
            return False
        self._packet, self.dscp = {**self._packet, "ip_dscp": code_point}, code_point
        return True

    def push(self, label: int) -> None:
        self._labels.append((label, self._labels[-1][1] if self._labels else 0))

    def set_traffic_class(self, number: int) -> bool:
        """Write the traffic class of the outermost label; whether there is one."""
        if not self._labels:
            return False
        self._labels[-1] = self._labels[-1][0], number
        return True

    def pop(self, eth_type: int) -> bool:
        """Take off the outermost label; whether there was one and what is under it is of this type."""
        if not self._labels:
            return False
        self._labels.pop()
        return self.fields()["eth_type"] == eth_type
