"""Watch windows are opened, closed and counted as the budget, the base rules and the switch allow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

from ryu.ofproto import ofproto_v1_3 as ofp  # noqa: E402 (Ryu first)
from ryu.ofproto import ofproto_v1_3_parser as parser  # noqa: E402

from controller.learning.sightings import QpKey  # noqa: E402
from controller.model.files.clos import clos  # noqa: E402
from controller.model.packets.flow_ports import ALL_TCP  # noqa: E402
from controller.model.packets.port_numbers import ROCE_PORT  # noqa: E402
from controller.southbound.forwarding.base import compile_base  # noqa: E402
from controller.southbound.limits.allowance import Allowance  # noqa: E402
from controller.southbound.limits.quiet_log import QuietLog  # noqa: E402
from controller.southbound.openflow.enforcing import messages, watch_messages  # noqa: E402
from controller.southbound.openflow.enforcing.watch_messages import WINDOW_SECONDS, remove_all  # noqa: E402
from controller.southbound.openflow.observing.watcher import AGAIN_SECONDS, MOST_ABSENT, Watcher  # noqa: E402
from controller.southbound.rollout.watch_rules import (  # noqa: E402
    COUNTING,
    COUNTING_COOKIE,
    WATCH,
    WINDOW_COOKIE,
    FlowCount,
    PrefixRules,
    WatchedFlow,
)
from controller.southbound.rules.rule import WATCH_PREFIX  # noqa: E402
from controller.southbound.rules.rule_set import SwitchRules  # noqa: E402
from tests.fake_switch.ports import Port  # noqa: E402
from tests.fake_switch.switch import FakeSwitch  # noqa: E402
from tests.unit.learning.sflow_packets import ack_frame, tcp_frame, write_frame  # noqa: E402

FABRIC = clos(leaves=3, spines=2, hosts_per_leaf=2)
ADDRESS = [int(IPv4Address(host.ip)) for host in FABRIC.hosts]
HOSTS = frozenset(ADDRESS)
BUDGET = 20


class FakeSession:
    """A session at rest, whose changes a fake switch carries out at once."""

    def __init__(self, dpid: int) -> None:
        self.switch = FakeSwitch(
            dpid, f"leaf{dpid}", [Port(n, f"p{n}", "02:00:00:00:00:01", 100.0) for n in range(1, 9)]
        )
        self.rules = compile_base(FABRIC)[dpid]
        self.version, self.n_unwatched, self.at_rest, self.withheld = 1, 0, True, False
        self.watched = False
        self.state = SimpleNamespace(name=f"leaf{dpid}")
        self.datapath = SimpleNamespace(id=dpid, ofproto=ofp, ofproto_parser=parser)
        self.exchange = self
        self.errors: list[Any] = []
        self._xid = 0

    def is_still(self, version: int) -> bool:
        return self.at_rest and self.version == version

    def expected(self) -> SwitchRules:
        return self.rules

    def is_watched(self) -> None:
        self.watched = True

    def offer_change(self, message: Any) -> bool:
        if self.withheld:
            return False
        for answer in self._answers(message):
            self.errors.append(SimpleNamespace(datapath=self.datapath, xid=int.from_bytes(answer[4:8], "big")))
        return True

    def ask_raw(self, message: Any) -> list[bytes]:
        return self._answers(message)

    def _answers(self, message: Any) -> list[bytes]:
        self._xid += 1
        message.set_xid(self._xid)
        message.serialize()
        return list(self.switch.receive(bytes(message.buf)))

    def of_windows(self, priority: int) -> list[Any]:
        found = [each for each in self.switch.flows if each.cookie >> 48 == WATCH_PREFIX]
        return [each for each in found if each.priority == priority]

    def puts(self, priority: int) -> list[Any]:
        """Flow-mods that put rules of a priority. A fake switch does not remove rules by itself."""
        mods = [message for message in self.switch.received if isinstance(message, parser.OFPFlowMod)]
        return [mod for mod in mods if mod.command == ofp.OFPFC_ADD and mod.priority == priority]


class Bench:
    """A watcher of the leaves of a small fabric, and a clock."""

    def __init__(self) -> None:
        self.time = 100.0
        self.sessions = {leaf.dpid: FakeSession(leaf.dpid) for leaf in FABRIC.leaves}
        self.budget = Allowance(BUDGET, self.time)
        quiet = QuietLog(logging.getLogger("fairspine.southbound"))
        self.watcher = Watcher(self, self, self.budget, quiet)  # type: ignore[arg-type]

    def session(self, dpid: int) -> Any:
        return self.sessions.get(dpid)

    def spawn(self, task: Callable[[], None]) -> None:
        task()

    def offload_in_turn(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def now(self) -> float:
        return 1_700_000_000 + self.time

    def clock(self) -> float:
        return self.time

    def step(self, seconds: float = WINDOW_SECONDS) -> list[FlowCount]:
        self.time += seconds
        return self.watcher.step([leaf.dpid for leaf in FABRIC.leaves], HOSTS)

    def packet(self, key: QpKey, *, ack: bool = False) -> None:
        """A packet of a window on the leaf of its sender, if the budget allows."""
        if self.budget.take(self.time):
            leaf = FABRIC.leaves[ADDRESS.index(key.src) // 2]
            self.watcher.packet(leaf.dpid, ack_frame(key, 5) if ack else write_frame(key, 5))

    def windows(self) -> list[int]:
        return [dpid for dpid, session in self.sessions.items() if session.of_windows(WATCH)]


def key(src: int = 0, dst: int = 4, port: int = 50000) -> QpKey:
    return QpKey(ADDRESS[src], ADDRESS[dst], port, 17)


def test_one_leaf_after_the_other_is_watched_and_its_rules_end_by_themselves() -> None:
    bench = Bench()
    first, *_ = leaves = [bench.sessions[leaf.dpid] for leaf in FABRIC.leaves]
    for leaf in (*leaves, first):
        before = {each: len(each.puts(WATCH)) for each in leaves}
        bench.step()
        bench.step(WINDOW_SECONDS / 4)
        assert {each for each in leaves if len(each.puts(WATCH)) > before[each]} == {leaf}
        # For the prefix of each other leaf, one for RoCEv2 and one for TCP.
        assert [mod.hard_timeout for mod in leaf.puts(WATCH)[before[leaf] :]] == [WINDOW_SECONDS] * 4


def test_each_flow_is_counted_once_and_acknowledgements_are_no_traffic() -> None:
    bench = Bench()
    bench.step()
    for _ in range(3):
        bench.packet(key())
        bench.packet(key(1, 4, 50001), ack=True)
    leaf = bench.sessions[1]
    counting = leaf.of_windows(COUNTING)
    assert len(counting) == 2
    for entry in counting:
        is_data = ("udp_src", 50000) in entry.key[2]
        entry.packets, entry.bytes = 10, 10 * (62 + (4096 if is_data else 0))
    bench.step(0.5)
    (count,) = bench.step(0.5)
    assert (count.flow, count.dst_qp, count.octets) == (WatchedFlow(ADDRESS[0], ADDRESS[4], 50000), 17, 10 * 4096)


def test_all_connections_of_two_hosts_are_counted_by_one_rule_without_their_acknowledgements() -> None:
    bench = Bench()
    bench.step()
    for frame in (tcp_frame(ADDRESS[0], ADDRESS[4], 40000, b"x"), tcp_frame(ADDRESS[0], ADDRESS[4], 40001, b"")):
        bench.watcher.packet(1, frame)
    (rule,) = bench.sessions[1].of_windows(COUNTING)
    rule.packets, rule.bytes = 10, 10 * 66 + 8 * 4000
    bench.step(0.5)
    (count,) = bench.step(0.5)
    assert (count.flow, count.dst_qp, count.octets) == (WatchedFlow(ADDRESS[0], ADDRESS[4], ALL_TCP), 0, 8 * 4000)


def test_strangers_are_not_counted() -> None:
    bench = Bench()
    bench.step()
    bench.packet(key()._replace(dst=int(IPv4Address("192.0.2.1"))))
    # A host of its own leaf needs no rule of a prefix.
    bench.packet(key(0, 1))
    assert bench.sessions[1].of_windows(COUNTING) == []


def test_ten_times_as_many_packets_as_the_budget_close_the_window_and_more_are_not_processed() -> None:
    bench = Bench()
    bench.step()
    assert bench.windows() == [1]
    for port in range(10 * BUDGET):
        bench.packet(key(port=50000 + port))
    assert bench.windows() == []
    assert len(bench.sessions[1].of_windows(COUNTING)) == BUDGET


def test_nothing_is_written_while_rules_change_and_rules_are_put_anew_where_base_rules_have_changed() -> None:
    bench = Bench()
    bench.step()
    bench.packet(key())
    leaf = bench.sessions[1]
    assert leaf.watched
    leaf.at_rest = False
    sent = len(leaf.switch.received)
    bench.packet(key(port=50001))
    bench.step()
    assert len(leaf.switch.received) == sent
    # The session has removed all of them, because another uplink is to be used.
    leaf.offer_change(remove_all(leaf.datapath))
    assert leaf.of_windows(COUNTING) == leaf.of_windows(WATCH) == []
    leaf.rules = compile_base(FABRIC.without_links({"leaf3-spine1"}))[1]
    leaf.n_unwatched, leaf.version, leaf.at_rest = 1, 2, True
    bench.step(0.1)
    (entry,) = leaf.of_windows(COUNTING)
    actions = [action for each in entry.instructions for action in each.actions]
    (output,) = actions
    assert isinstance(output, parser.OFPActionOutput)
    assert ("udp_src", 50000) in entry.key[2]


def test_stop_removes_every_rule_and_without_permission_none_is_written() -> None:
    bench = Bench()
    for _ in range(3):
        bench.step()
    bench.packet(key())
    bench.watcher.stop()
    for session in bench.sessions.values():
        assert session.of_windows(WATCH) == session.of_windows(COUNTING) == []
        session.withheld = True
    bench.step()
    bench.packet(key())
    assert bench.windows() == []


def test_a_leaf_that_refuses_a_rule_is_left_alone_for_a_while() -> None:
    bench = Bench()
    leaf = bench.sessions[1]
    leaf.switch.flows.limit = 0
    bench.step()
    assert leaf.errors
    assert all(bench.watcher.refused(error) for error in leaf.errors)
    assert not bench.watcher.refused(SimpleNamespace(datapath=leaf.datapath, xid=987654))
    leaf.switch.flows.limit = None
    for _ in range(int(AGAIN_SECONDS) - 1):
        bench.step()
        assert leaf.of_windows(WATCH) == []
    for _ in range(4):
        bench.step()
    assert leaf.of_windows(WATCH)


def test_rules_of_an_earlier_controller_go_on_counting_and_flows_without_a_rule_are_forgotten() -> None:
    bench = Bench()
    bench.step()
    bench.packet(key())
    bench.sessions[1].of_windows(COUNTING)[0].bytes = 1000
    quiet = QuietLog(logging.getLogger("fairspine.southbound"))
    bench.watcher = Watcher(bench, bench, bench.budget, quiet)  # type: ignore[arg-type]
    bench.step()
    (count,) = bench.step()
    assert (count.dst_qp, count.octets) == (0, 1000)
    bench.sessions[1].switch.forget()
    bench.packet(key())
    assert bench.sessions[1].of_windows(COUNTING) == []
    assert [bench.step() for _ in range(MOST_ABSENT)] == [[]] * MOST_ABSENT
    bench.packet(key())
    assert len(bench.sessions[1].of_windows(COUNTING)) == 1


def test_messages_are_those_that_ryu_makes() -> None:
    session = FakeSession(1)
    prefixes = PrefixRules(session.rules)
    flow = prefixes.counting_rule(WatchedFlow(ADDRESS[0], ADDRESS[4], 50000))
    assert flow is not None
    for rule, made, cookie, timeout in (
        *((rule, watch_messages.watch(rule), WINDOW_COOKIE, {"hard_timeout": 1}) for rule in prefixes.watch_rules()),
        (flow, watch_messages.count(flow), COUNTING_COOKIE, {"idle_timeout": 300}),
    ):
        by_ryu = messages.put_rule(session.datapath, rule, 0)
        by_ryu.cookie = cookie
        vars(by_ryu).update(timeout)
        assert made.message(7) == _serialized(by_ryu)
    fields = {"ip_proto": 17, "udp_dst": ROCE_PORT}, {"ip_proto": 6}
    for request, of_kind in zip(watch_messages.read_counters(session.datapath), fields, strict=True):
        matched = parser.OFPMatch(eth_type=0x0800, **of_kind)
        asked = parser.OFPFlowStatsRequest(session.datapath, 0, 0, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0, matched)
        assert _serialized(request) == _serialized(asked)


def _serialized(message: Any) -> bytes:
    message.set_xid(7)
    message.serialize()
    return bytes(message.buf)
