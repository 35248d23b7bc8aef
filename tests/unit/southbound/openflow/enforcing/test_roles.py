"""The roles of a replica: no switch is changed before it has accepted the present term, and none after a later one."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
from ryu.lib import hub  # noqa: E402
from ryu.ofproto import ofproto_v1_3 as ofp  # noqa: E402
from ryu.ofproto import ofproto_v1_3_parser as parser  # noqa: E402

from controller.southbound.openflow.enforcing import roles  # noqa: E402
from controller.southbound.openflow.enforcing.roles import NOT_LEADER, ONF_EXPERIMENTER, ROLE_STATUS, UNDEFINED, Roles  # noqa: E402
from controller.southbound.rollout.write_permission import WritePermission  # noqa: E402


class Switch:
    """A connection to a switch that knows a generation, and answers requests for roles as the specification says."""

    ofproto, ofproto_parser = ofp, parser

    def __init__(self, dpid: int, generation: int = UNDEFINED) -> None:
        self.id, self.generation, self.role = dpid, generation, ofp.OFPCR_ROLE_EQUAL
        self.xid, self.roles = 0, list[Roles]()
        self.answers = True
        self.overtakes = False
        """Whether another master comes before each request of this one."""

    def set_xid(self, message: Any) -> int:
        self.xid += 1
        message.set_xid(self.xid)
        return self.xid

    def send(self, data: bytes) -> bool:
        xid, role, generation = struct.unpack_from("!4xII4xQ", data)
        if self.answers:
            hub.spawn(self._answer, xid, role, generation)
        return True

    def _answer(self, xid: int, role: int, generation: int) -> None:
        if role != ofp.OFPCR_ROLE_NOCHANGE:
            if self.overtakes:
                self.generation = generation + 1
            if self.generation != UNDEFINED and generation < self.generation:
                self._failed(xid, ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE)
                return
            self.role, self.generation = role, generation
        reply = SimpleNamespace(datapath=self, xid=xid, role=self.role, generation_id=self.generation)
        for each in self.roles:
            each.replied(reply)

    def _failed(self, xid: int, kind: int, code: int) -> None:
        for each in self.roles:
            each.failed(SimpleNamespace(datapath=self, xid=xid, type=kind, code=code))


class Replica:
    def __init__(self, *switches: Switch) -> None:
        self.permission, self.admitted = WritePermission(), list[int]()
        self.roles = Roles(self.permission, admitted=lambda datapath: self.admitted.append(datapath.id), name=str)
        for switch in switches:
            switch.roles.append(self.roles)

    def connect(self, *switches: Switch) -> None:
        for switch in switches:
            self.roles.connected(switch)
        settle()


def settle() -> None:
    """Let all greenlets run that can."""
    for _ in range(50):
        hub.sleep(0)


def test_a_follower_is_slave_and_changes_nothing() -> None:
    switch = Switch(1)
    replica = Replica(switch)
    replica.connect(switch)
    assert switch.role == ofp.OFPCR_ROLE_SLAVE
    assert (replica.admitted, replica.permission.withheld) == ([], NOT_LEADER)


def test_switches_are_counted_whatever_the_role_until_they_disconnect() -> None:
    one, two = Switch(1), Switch(2)
    replica = Replica(one, two)
    replica.connect(one, two)
    assert replica.roles.connections == 2
    replica.roles.lead(1)
    settle()
    assert replica.roles.connections == 2
    replica.roles.disconnected(1)
    assert replica.roles.connections == 1


def test_a_leader_is_master_of_switches_from_before_and_after_its_election() -> None:
    early, late = Switch(1), Switch(2)
    replica = Replica(early, late)
    replica.connect(early)
    replica.roles.lead(3)
    settle()
    replica.connect(late)
    assert {(each.role, each.generation) for each in (early, late)} == {(ofp.OFPCR_ROLE_MASTER, 3)}
    assert sorted(replica.admitted) == [1, 2]
    assert replica.permission.withheld == ""


def test_a_follower_that_a_switch_refuses_asks_again_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "RETRY", 0)
    switch = Switch(1, generation=4)
    replica = Replica(switch)
    switch.overtakes = True
    replica.connect(switch)
    switch.overtakes = False
    assert not replica.roles.lost
    with hub.Timeout(60):
        while switch.role != ofp.OFPCR_ROLE_SLAVE:
            hub.sleep(0.01)


@pytest.mark.parametrize("known", [4, 2**40])
def test_a_leader_that_a_switch_knows_to_be_behind_loses_the_permission(known: int) -> None:
    switch = Switch(1)
    replica = Replica(switch)
    replica.connect(switch)
    switch.generation = known
    replica.roles.lead(3)
    settle()
    assert "later than 3" in replica.roles.lost
    assert replica.permission.withheld == NOT_LEADER
    assert (replica.admitted, replica.roles.seen) == ([], known)


def test_a_term_that_a_switch_knows_from_another_leader_is_not_used_again() -> None:
    old, new = Switch(1, generation=3), Switch(2)
    replica = Replica(old, new)
    replica.roles.lead(3)
    replica.connect(new)
    # It knows the term from this replica.
    replica.connect(new)
    assert not replica.roles.lost
    replica.connect(old)
    assert replica.roles.lost == "1 knows term 3 from another leader"
    assert (replica.permission.withheld, replica.roles.seen) == (NOT_LEADER, 3)
    assert old.role != ofp.OFPCR_ROLE_MASTER


def test_a_leader_whose_term_is_overtaken_between_question_and_request_loses_the_permission() -> None:
    switch = Switch(1)
    replica = Replica(switch)
    replica.connect(switch)
    switch.overtakes = True
    replica.roles.lead(3)
    settle()
    assert replica.roles.lost
    assert (replica.admitted, replica.permission.withheld) == ([], NOT_LEADER)


def test_a_leader_ends_when_a_switch_treats_it_as_a_slave_or_says_that_it_is_one() -> None:
    for tell in (is_slave, role_status):
        switch = Switch(1)
        replica = Replica(switch)
        replica.connect(switch)
        replica.roles.lead(3)
        settle()
        assert not replica.roles.lost
        tell(replica.roles, switch)
        assert replica.roles.lost
        assert replica.permission.withheld == NOT_LEADER


def is_slave(told: Roles, switch: Switch) -> None:
    told.failed(SimpleNamespace(datapath=switch, xid=7, type=ofp.OFPET_BAD_REQUEST, code=ofp.OFPBRC_IS_SLAVE))


def role_status(told: Roles, switch: Switch) -> None:
    data = struct.pack("!IB3xQ", ofp.OFPCR_ROLE_SLAVE, 0, 4)
    told.experimenter(SimpleNamespace(datapath=switch, experimenter=ONF_EXPERIMENTER, exp_type=ROLE_STATUS, data=data))


def test_a_switch_that_does_not_answer_is_asked_again_and_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "RETRY", 0)
    switch = Switch(1)
    replica = Replica(switch)
    switch.answers = False
    replica.connect(switch)
    for channel in replica.roles._channels.values():
        channel.timeout = 0.01
    replica.roles.lead(1)
    settle()
    assert replica.admitted == []
    switch.answers = True
    with hub.Timeout(60):
        while not replica.admitted:
            hub.sleep(0.01)
    assert switch.role == ofp.OFPCR_ROLE_MASTER
