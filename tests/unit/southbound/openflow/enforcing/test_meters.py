"""Meters and the rules that keep hosts' discovery packets away."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import ryu_compat

ryu_compat.prepare()

from ryu.ofproto import ofproto_v1_3 as ofp  # noqa: E402 (Ryu first)

from controller.model.files.clos import clos  # noqa: E402
from controller.southbound.discovery import lldp  # noqa: E402
from controller.southbound.forwarding.base import compile_base, compile_listening  # noqa: E402
from controller.southbound.forwarding.leaf_guards import (  # noqa: E402
    ARP_METER,
    DISCOVERY_METER,
    HOST_DISCOVERY,
    METERS,
    unmetered,
)
from controller.southbound.limits.quiet_log import QuietLog  # noqa: E402
from controller.southbound.openflow.enforcing.meters import Meters  # noqa: E402
from controller.southbound.openflow.enforcing.request_channel import NotSupported, Refused, RequestChannel  # noqa: E402
from controller.southbound.rollout.update import RuleEdit, work  # noqa: E402
from controller.southbound.rules.interpreter import Packet  # noqa: E402
from controller.southbound.rules.rule import Rule, ToController  # noqa: E402
from controller.southbound.wire import meter_bytes  # noqa: E402
from tests.fake_switch.switch import FakeSwitch  # noqa: E402

QUIET = QuietLog(logging.getLogger("fairspine.southbound"))


class Wire(RequestChannel):
    """An exchange with a fake switch."""

    def __init__(self, switch: FakeSwitch) -> None:
        self.datapath = SimpleNamespace(id=switch.dpid, ofproto=ofp, ofproto_parser=None)
        self.switch = switch
        self.errors: list[Refused] = []

    def ask_raw(self, message: Any) -> list[bytes]:
        message.set_xid(1)
        message.serialize()
        answers = list(self.switch.receive(bytes(message.buf)))
        if answers[0][1] == ofp.OFPT_ERROR:
            raise NotSupported("the switch refused the request")
        return answers

    def send_templates(self, templates: Any, causes: Any) -> None:
        for template, cause in zip(templates, causes, strict=True):
            for answer in self.switch.receive(template.message(2)):
                kind, code = int.from_bytes(answer[8:10], "big"), int.from_bytes(answer[10:12], "big")
                self.errors.append(Refused(SimpleNamespace(type=kind, code=code), cause))

    def settle(self) -> list[Refused]:
        errors, self.errors = self.errors, []
        return errors


def switch(most_meters: int = 16) -> FakeSwitch:
    return FakeSwitch(1, "leaf1", [], most_meters=most_meters)


def test_meters_are_made_once_and_found_again() -> None:
    fake = switch()
    meters = Meters(True, QUIET)
    meters.prepare(Wire(fake))
    assert meters.usable
    assert meter_bytes.ours(Wire(fake).ask_raw(_config())) == METERS
    assert len(fake.meter_mods()) == len(METERS)
    again = Meters(True, QUIET)
    again.prepare(Wire(fake))
    assert again.usable
    assert len(fake.meter_mods()) == len(METERS)


def _config() -> Any:
    from controller.southbound.openflow.enforcing import messages

    return messages.read_meters(SimpleNamespace(ofproto=ofp, ofproto_parser=None))


def test_a_meter_of_ours_with_another_rate_is_put_right_and_others_are_left_alone() -> None:
    fake = switch()
    wire = Wire(fake)
    slow, foreign = ARP_METER._replace(per_second=1), ARP_METER._replace(id=7)
    wire.send_templates([meter_bytes.put_meter(each, replaces=False) for each in (slow, foreign)], (slow, foreign))
    Meters(True, QUIET).prepare(wire)
    assert meter_bytes.ours(wire.ask_raw(_config())) == METERS
    assert set(fake.meters) == {*METERS, 7}


@pytest.mark.parametrize("most", [0, 1])
def test_a_switch_without_room_for_meters_gets_rules_without_them_and_is_asked_once(most: int) -> None:
    fake = switch(most)
    meters = Meters(True, QUIET)
    meters.prepare(Wire(fake))
    assert not meters.usable
    asked = len(fake.received)
    meters.prepare(Wire(fake))
    assert len(fake.received) == asked


def test_no_meters_are_made_where_none_are_wanted() -> None:
    fake = switch()
    meters = Meters(False, QUIET)
    meters.prepare(Wire(fake))
    assert not meters.usable
    assert fake.received == []


def test_removed_meters_are_created_again_and_refused_ones_are_not_retried() -> None:
    fake = switch()
    wire, meters = Wire(fake), Meters(True, QUIET)
    meters.prepare(wire)
    rule = next(r for r in compile_base(clos(1, 1, 1))[1].rules.values() if r.meter is not None)
    error = SimpleNamespace(type=ofp.OFPET_METER_MOD_FAILED, code=ofp.OFPMMFC_UNKNOWN_METER)
    refused = [Refused(error, RuleEdit(True, rule))]
    fake.meters.clear()
    assert meters.given_up("leaf1", refused)
    meters.prepare(wire)
    assert meters.usable
    assert set(fake.meters) == set(METERS)
    assert meters.given_up("leaf1", refused)
    meters.prepare(wire)
    assert not meters.usable
    assert not meters.given_up("leaf1", refused)


def test_errors_that_have_nothing_to_do_with_meters_are_no_reason_to_give_them_up() -> None:
    meters = Meters(True, QUIET)
    meters.prepare(Wire(switch()))
    metered = next(r for r in compile_base(clos(1, 1, 1))[1].rules.values() if r.meter is not None)
    full = SimpleNamespace(type=ofp.OFPET_FLOW_MOD_FAILED, code=ofp.OFPFMFC_TABLE_FULL)
    other = SimpleNamespace(type=ofp.OFPET_BAD_INSTRUCTION, code=0)
    assert not meters.given_up("leaf1", [Refused(full, RuleEdit(True, metered))])
    assert not meters.given_up("leaf1", [Refused(other, RuleEdit(True, metered._replace(meter=None)))])


@given(st.binary(max_size=80))
def test_any_reply_is_read_or_refused(raw: bytes) -> None:
    for read in (meter_bytes.can_count_packets, meter_bytes.ours):
        try:
            read([raw])
        except ValueError:
            continue


@pytest.mark.parametrize("learn", [False, True])
def test_all_that_goes_to_the_controller_is_metered_arp_apart_from_discovery(learn: bool) -> None:
    rules = compile_base(clos(2, 2, 2), learn=learn)
    every = [rule for dpid in rules for rule in rules[dpid].rules.values()]
    every += list(compile_listening([9])[9].rules.values())
    for rule in every:
        sends = any(isinstance(action, ToController) for action in rule.actions)
        discovery = ("eth_type", lldp.ETHERTYPE) in rule.match
        assert rule.meter == ((DISCOVERY_METER.id if discovery else ARP_METER.id) if sends else None)


def test_discovery_packets_from_ports_of_hosts_are_dropped_before_anything_else() -> None:
    fabric = clos(2, 2, 2)
    rules = compile_base(fabric)[1]
    packet: Packet = {"eth_type": lldp.ETHERTYPE, "eth_dst": lldp.NEAREST_BRIDGE}
    for port, host in ((1, True), (2, True), (3, False), (9, False)):
        met = rules.classifier.best(0, {**packet, "in_port": port})
        assert met is not None
        assert bool(met.actions) != host
        assert met.meter == (None if host else DISCOVERY_METER.id)
    # Where hosts are only learned, a port may turn out to lead to a switch.
    assert not any(r.priority == HOST_DISCOVERY for r in compile_base(fabric, learn=True)[1].rules.values())


def test_a_switch_without_meters_gets_the_same_rules_without_them() -> None:
    want = compile_base(clos(2, 2, 2))[1]
    plain = unmetered(want)
    assert unmetered(plain) is plain
    assert {key: rule._replace(meter=None) for key, rule in want.rules.items()} == plain.rules
    todo = work(compile_base(clos(2, 2, 2))[9], want, frozenset(range(10)), meters=False)
    put = [edit.what for steps in todo.stages.values() for step in steps for edit in step]
    assert all(isinstance(rule, Rule) and rule.meter is None for rule in put)
    assert not work(plain, want, frozenset(range(10)), meters=False)
