"""The fake switch does with flow-mods and group-mods what Open vSwitch does: same tables, errors and messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.files.clos import clos
from emulation.lab import Lab
from tests.fake_switch.decode import PROTOCOL
from tests.fake_switch.mods import sequences
from tests.fake_switch.ports import Port
from tests.fake_switch.switch import FakeSwitch
from tests.rig.bench import Bench
from tests.rig.switches.raw_openflow import BridgeWire, FakeWire, Talk, bridge_socket
from tests.rig.waiting import eventually
from tests.unit.laws import examples

pytestmark = pytest.mark.switches


@pytest.fixture
def lab(bench: Bench) -> Lab:
    bench.harmless.append(("error reply to OFPT_(FLOW|GROUP)_MOD", "refusals are what is compared"))
    return bench.lab(clos(1, 1, 2))


@pytest.fixture
def open_vswitch(lab: Lab) -> Iterator[Talk]:
    wire = BridgeWire(bridge_socket(lab, "leaf1"))
    yield Talk(wire)
    wire.close()


def fake(**options: Any) -> Talk:
    ports = (Port(number, f"p{number}", f"02:00:00:00:00:{number:02x}", 10.0) for number in (1, 2, 3))
    return Talk(FakeWire(FakeSwitch(1, "fake", ports, checks_chains=False, **options)))


def errors(replies: list[Any]) -> dict[int, tuple[str, str]]:
    """Errors by the place of the message that was refused."""
    return {
        reply.xid: (ofp.ofp_error_type_to_str(reply.type), ofp.ofp_error_code_to_str(reply.type, reply.code))
        for reply in replies
        if isinstance(reply, parser.OFPErrorMsg)
    }


def tables(talk: Talk) -> tuple[Any, Any]:
    flows = {
        (flow.table_id, flow.priority, tuple(sorted(flow.match.items()))): (flow.cookie, str(flow.instructions))
        for flow in talk.flows()
    }
    groups = {group.group_id: (group.type, str(group.buckets)) for group in talk.groups()}
    return flows, groups


def cleared(talk: Talk) -> Counter[Any]:
    """Clear the tables; what was said of removed flows since the last time.

    Open vSwitch says so some time after the barrier, but in order: a flow of our own, removed last, is the end.
    """
    talk.clear()
    last = {"table_id": 9, "cookie": 0x1A57, "out_port": ofp.OFPP_ANY, "out_group": ofp.OFPG_ANY}
    add = parser.OFPFlowMod(PROTOCOL, flags=ofp.OFPFF_SEND_FLOW_REM, **last)
    talk.say([add, parser.OFPFlowMod(PROTOCOL, command=ofp.OFPFC_DELETE, **last)])

    def told() -> bool:
        talk.say([])
        return any(flow.cookie == last["cookie"] for flow in talk.removed)

    eventually(told, "it has told of every removed flow")
    removed, talk.removed = talk.removed, []
    return Counter(
        (flow.table_id, flow.priority, flow.cookie, flow.reason, tuple(sorted(flow.match.items()))) for flow in removed
    )


@settings(max_examples=examples(50, 300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mods=sequences())
def test_any_sequence_of_changes_has_the_same_effect_on_both(open_vswitch: Talk, mods: list[Any]) -> None:
    note("\n".join(map(str, mods)))
    cleared(open_vswitch)
    pretended = fake()
    assert errors(pretended.say(mods)) == errors(open_vswitch.say(mods))
    assert tables(pretended) == tables(open_vswitch)
    assert cleared(pretended) == cleared(open_vswitch)


def test_a_full_table_refuses_only_rules_for_which_it_has_no_room(lab: Lab, open_vswitch: Talk) -> None:
    bridge = lab.wiring.switch("leaf1").bridge
    row = ["--id=@limit", "create", "Flow_Table", "flow_limit=3"]
    lab.ovs.vsctl("--", *row, "--", "set", "bridge", bridge, "flow_tables:0=@limit")
    mods = []
    for priority, command in ((1, 0), (2, 0), (3, 0), (4, 0), (2, 0), (1, 3), (5, 0), (6, 0), (9, 1)):
        strict = ofp.OFPFC_DELETE_STRICT if command == ofp.OFPFC_DELETE else command
        anywhere = {"out_port": ofp.OFPP_ANY, "out_group": ofp.OFPG_ANY}
        mods.append(parser.OFPFlowMod(PROTOCOL, priority=priority, command=strict, **anywhere))
    mods.append(parser.OFPFlowMod(PROTOCOL, priority=7, table_id=1))
    full = fake(table_limit=3)
    refused = errors(full.say(mods))
    assert refused == errors(open_vswitch.say(mods))
    assert set(refused) == {3, 7}
    assert tables(full) == tables(open_vswitch)
