"""A whole fabric of fake switches that connects to a controller: asked, broken and mended by the thread of a test."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import permutations
from types import TracebackType
from typing import Any, TypeVar

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.fabric import Fabric
from controller.southbound.rules.interpreter import Choose, Packet, Walk
from controller.southbound.rules.rule import RuleKey
from controller.southbound.rules.rule_set import RuleSet, SwitchRules
from tests.fake_switch import encode
from tests.fake_switch.connection import Connection, Temper
from tests.fake_switch.decode import PROTOCOL
from tests.fake_switch.impostor import Impostor
from tests.fake_switch.network import FakeNetwork
from tests.fake_switch.ports import Port, cable_ends, ports_of
from tests.fake_switch.refusal import Refused
from tests.fake_switch.switch import PART_BYTES, FakeSwitch

CONNECT_SECONDS = 180.0
CALL_SECONDS = 180.0
POLL_SECONDS = 0.02

T = TypeVar("T")


class FakeFabric:
    """Fake switches, one a leaf and spine, with hosts that answer ARP. Use it as a context manager.

    Everything happens on one thread of its own; each method hands its work to that thread and waits for it, so what a
    method tells is of one moment.

    Args:
        fabric: names, ids, addresses, ports and cables. Cables that are not ``up`` are there, and set down.
        controller: host and port to connect to.
        table_limit: how many entries each table of each switch holds (``None``: any number).
        part_bytes: of the entries in one part of a statistics reply.
        checks_chains: as in ``GroupTable``.
        most_meters: how many meters each switch holds.
        reorder: a seed; flow-mods and group-mods that no barrier parts are carried out in any order then.
    """

    def __init__(
        self,
        fabric: Fabric,
        controller: tuple[str, int],
        *,
        table_limit: int | None = None,
        part_bytes: int = PART_BYTES,
        checks_chains: bool = True,
        reorder: int | None = None,
        most_meters: int = 16,
    ) -> None:
        self.fabric, self.controller = fabric, controller
        shuffle = None if reorder is None else random.Random(reorder)
        self._switches = {
            switch.name: FakeSwitch(
                switch.dpid,
                switch.name,
                ports_of(fabric, switch.name),
                table_limit=table_limit,
                part_bytes=part_bytes,
                checks_chains=checks_chains,
                most_meters=most_meters,
                clock=time.monotonic,
            )
            for switch in fabric.switches
        }
        self._tempers = {name: Temper(reorder=shuffle) for name in self._switches}
        self._connections: dict[str, Connection] = {}
        self._dark: set[str] = set()
        self._network = FakeNetwork(fabric, self._switches, lambda name, packet: self._connections[name].tell(packet))
        for name, switch in self._switches.items():
            switch.packet_out = partial(self._network.out_of, name)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake switches", daemon=True)

    # -- life ------------------------------------------------------------------------------------------------

    def __enter__(self) -> FakeFabric:
        self._thread.start()
        self._do(self._begin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CALL_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()

    def _begin(self) -> None:
        self._carriers()
        for name, switch in self._switches.items():
            self._connections[name] = Connection(switch, self.controller, self._tempers[name])

    async def _end(self) -> None:
        for connection in self._connections.values():
            await connection.close()

    def _do(self, work: Callable[[], T]) -> T:
        """Run something on the switches' thread."""

        async def call() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(CALL_SECONDS)

    # -- asking ----------------------------------------------------------------------------------------------

    def connected(self) -> frozenset[str]:
        """Names of the switches that the controller knows."""
        return self._do(lambda: frozenset(name for name, each in self._connections.items() if each.connected))

    def wait_connected(self, timeout: float = CONNECT_SECONDS) -> None:
        """Wait until all switches are connected.

        Raises:
            TimeoutError: some are not in time; names them.
        """
        deadline = time.monotonic() + timeout
        while missing := sorted(self._switches.keys() - self.connected()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not connected within {timeout:g} s: {', '.join(missing)}")
            time.sleep(POLL_SECONDS)

    def connects(self, name: str) -> int:
        """How many connections a switch has had."""
        return self._do(lambda: self._connections[name].connects)

    def rules(self, name: str) -> SwitchRules:
        """Return the controller's rules and groups on a switch."""
        return self._do(self._switches[name].ours)

    def held(self) -> RuleSet:
        """Return the controller's rules and groups on all switches."""
        return self._do(lambda: RuleSet({switch.dpid: switch.ours() for switch in self._switches.values()}))

    def counts(self, name: str) -> dict[RuleKey, int]:
        """Packets that each rule of a switch has met."""
        return self._do(lambda: {entry.key: entry.packets for entry in self._switches[name].flows})

    def received_packets(self) -> dict[str, int]:
        """Packets that have come over each directed link between switches."""

        def read() -> dict[str, int]:
            links = {}
            for number, cable in enumerate(self.fabric.cables):
                first = self.fabric.first_cable_link + 2 * number
                ends = (cable.upper, cable.upper_port), (cable.lower, cable.lower_port)
                for link, (name, port) in zip(self.fabric.link_ids[first : first + 2], ends, strict=True):
                    if port is not None:
                        links[link] = self._switches[name].ports[port].rx_packets
            return links

        return self._do(read)

    def flow_mods(self, name: str) -> list[Any]:
        """Return the flow-mods with the controller's cookie that were sent to a switch (Ryu's objects)."""
        return self._do(self._switches[name].flow_mods)

    def meter_mods(self, name: str) -> list[Any]:
        """Return the meter-mods that were sent to a switch (Ryu's objects)."""
        return self._do(self._switches[name].meter_mods)

    def group_mods(self, name: str) -> list[Any]:
        """Return the group-mods that were sent to a switch (Ryu's objects)."""
        return self._do(self._switches[name].group_mods)

    def messages(self, name: str) -> list[Any]:
        """All messages that a switch has been sent (Ryu's objects), without echoes."""
        return self._do(lambda: list(self._switches[name].received))

    def forget_messages(self) -> None:
        """Begin anew with what was sent."""

        def forget() -> None:
            for switch in self._switches.values():
                switch.received.clear()

        self._do(forget)

    # -- packets ---------------------------------------------------------------------------------------------

    def walk(self, packet: Packet, source: str, choose: Choose = min) -> Walk:
        """Send a packet (header fields by OpenFlow name) from a host, and see where it goes."""
        (walk,) = self.walks([(packet, source)], choose)
        return walk

    def walks(self, packets: Iterable[tuple[Packet, str]], choose: Choose = min) -> list[Walk]:
        """Send packets from hosts at one moment. One by one, each would wait for its turn among the switches' work."""
        sent = list(packets)
        return self._do(lambda: [self._network.walk(*each, choose) for each in sent])

    def ping_all(self, pairs: Iterable[tuple[str, str]] | None = None, choose: Choose = min) -> list[tuple[str, str]]:
        """One ping for each ordered pair of hosts (or those given); the pairs that got no answer."""
        wanted = list(permutations(self._network.hosts, 2)) if pairs is None else list(pairs)
        return self._do(lambda: sorted(pair for pair in wanted if not self._network.ping(*pair, choose)))

    @contextmanager
    def watching(self, packets: Iterable[tuple[str, str, Packet]]) -> Iterator[list[str]]:
        """While the block runs, see after each single change on any switch where packets go.

        Args:
            packets: the host that sends, the host that should get it, and the header fields.

        Yields:
            A list that is filled with what does not arrive, and why.
        """
        watched = list(packets)
        lost: list[str] = []
        self._watch(lambda: lost.extend(self._network.lost(watched)))
        try:
            yield lost
        finally:
            self._watch(lambda: None)

    def _watch(self, look: Callable[[], None]) -> None:
        def set_all() -> None:
            for switch in self._switches.values():
                switch.changed = look

        self._do(set_all)

    # -- breaking and mending --------------------------------------------------------------------------------

    def temper(self, name: str) -> Temper:
        """How a switch behaves: set its attributes at any time."""
        return self._tempers[name]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """All switches stand still, connections open."""
        for temper in self._tempers.values():
            temper.silent = True
        try:
            yield
        finally:
            for temper in self._tempers.values():
                temper.silent = False

    def refuse_next(self, name: str, kind: type[Any], error: Refused, times: int = 1) -> None:
        """Have a switch refuse the next messages of one type (Ryu's class)."""
        self._do(lambda: self._switches[name].refuse_next(kind, error, times))

    def refuse_port_masks(self, name: str) -> None:
        """Have a switch refuse rules with a masked UDP port, as OpenFlow 1.3 allows."""
        self._do(lambda: setattr(self._switches[name], "takes_port_masks", False))

    def someone_sends(self, name: str, *sent: Any) -> None:
        """Let a switch execute messages (Ryu's) that do not come from the controller."""

        def carry_out() -> None:
            switch = self._switches[name]
            before = len(switch.received)
            for message in sent:
                message.set_xid(0)
                message.serialize()
                answers = list(switch.receive(bytes(message.buf)))
                assert not answers, answers
            del switch.received[before:]

        self._do(carry_out)

    def remove_meter(self, name: str, meter: int) -> None:
        """Somebody else removes a meter of a switch; the rules that use it go with it."""
        self.someone_sends(name, parser.OFPMeterMod(PROTOCOL, ofp.OFPMC_DELETE, meter_id=meter))

    def limit_tables(self, name: str, entries: int | None) -> None:
        """From now on each table of a switch holds so many entries; those that are there stay."""

        def limit() -> None:
            switch = self._switches[name]
            switch.table_limit = switch.flows.limit = entries

        self._do(limit)

    def set_cable(self, name: str, up: bool) -> None:
        """Both ends of a cable (``leaf1-spine2``, ``h1-leaf1``) down or up."""

        ends: dict[str, tuple[tuple[str, int | None], ...]] = {
            f"{host.name}-{host.leaf}": ((host.leaf, host.port),) for host in self.fabric.hosts
        }
        ends |= zip(self.fabric.cable_names, map(cable_ends, self.fabric.cables), strict=True)
        found = [(switch, port) for switch, port in ends[name] if port is not None]
        self._do(lambda: self._set(found, up))

    def set_port(self, switch: str, port: int, up: bool) -> None:
        """One end of a cable down or up; the other end sees its carrier go and come."""
        self._do(lambda: self._set([(switch, port)], up))

    def kill_switch(self, name: str) -> None:
        """Power off: its connection, its rules and its carriers are gone."""

        def kill() -> None:
            self._dark.add(name)
            self._connections[name].held = True
            self._connections[name].cut()
            self._switches[name].forget()
            self._carriers()

        self._do(kill)

    def start_switch(self, name: str) -> None:
        """Power on again: it comes back empty."""

        def start() -> None:
            self._dark.discard(name)
            self._connections[name].held = False
            self._carriers()

        self._do(start)

    def restart_switches(self) -> None:
        """All switches lose their connections, rules and groups; the cables stay."""

        def restart() -> None:
            for name, switch in self._switches.items():
                self._connections[name].cut()
                switch.forget()

        self._do(restart)

    def cut(self, name: str) -> None:
        """Disconnect a switch, which stays disconnected and keeps forwarding by its rules."""

        def cut() -> None:
            self._connections[name].held = True
            self._connections[name].cut()

        self._do(cut)

    def reconnect(self, name: str) -> None:
        """Let a disconnected switch connect to the controller again."""

        def back() -> None:
            self._connections[name].held = False

        self._do(back)

    @contextmanager
    def impostor(self, name: str) -> Iterator[Impostor]:
        """One more switch, of the same datapath id as one that is there, empty and without a cable."""
        switch = FakeSwitch(self._switches[name].dpid, f"second {name}", ports_of(self.fabric, name))
        connection = self._do(lambda: Connection(switch, self.controller, Temper()))
        try:
            yield Impostor(self._do, switch, connection)
        finally:
            asyncio.run_coroutine_threadsafe(connection.close(), self._loop).result(CALL_SECONDS)

    def _set(self, ends: Iterable[tuple[str, int]], up: bool) -> None:
        for name, number in ends:
            self._switches[name].ports[number].on = up
            self._tell(name, self._switches[name].ports[number])
        self._carriers()

    def _carriers(self) -> None:
        """Every port sees whether the far end is on; those for which that has changed say so."""
        for (name, number), (far, far_number) in self._network.wiring.peer.items():
            port = self._switches[name].ports[number]
            carrier = far not in self._dark and self._switches[far].ports[far_number].on
            if port.carrier != carrier:
                port.carrier = carrier
                self._tell(name, port)
        self._network.ports_changed()

    def _tell(self, name: str, port: Port) -> None:
        if name in self._connections:
            self._connections[name].tell(encode.port_status(ofp.OFPPR_MODIFY, port))
