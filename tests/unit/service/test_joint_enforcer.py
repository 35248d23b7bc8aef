"""Switches get rules before hosts get plans, whichever of the two carries out the newer plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controller.config import Settings
from controller.core.ports.enforcer import Target
from controller.joint_enforcer import JointEnforcer
from controller.model.files.clos import clos
from controller.southbound.enforcement.carried_rules import CarriedRules, CarriedRulesCompiler
from controller.southbound.enforcement.enforcement_task import EnforcementTask
from controller.southbound.enforcement.host_compiler import HostCompiler
from controller.southbound.enforcement.host_plans import HostPlans
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler
from controller.southbound.forwarding.base import compile_base
from controller.southbound.rules.rule_set import RuleSet

FABRIC = clos(2, 2, 1)
KEYS = [switch.dpid for switch in FABRIC.switches]
SETTINGS = Settings()
COMPILER = CarriedRulesCompiler(OpenFlowCompiler("bundle", SETTINGS), HostCompiler(SETTINGS))
BY_HOSTS, BY_SWITCHES = (
    COMPILER(EnforcementTask(FABRIC, enforcement=name, ends=frozenset({0, 1}))) for name in ("srv6", "per_flow")
)


@dataclass
class Report:
    dpid: int
    name: str = ""
    epoch: int = -1
    error: str = ""
    missing: tuple[int, ...] = ()
    connected: bool = True
    waits_for: tuple[str, ...] = ()

    @property
    def key(self) -> int:
        return self.dpid


@dataclass
class Switches:
    """Confirm what they are told to."""

    reports: list[Report] = field(default_factory=lambda: [Report(key) for key in KEYS])
    rules: RuleSet = field(default_factory=RuleSet)

    def install(self, target: Target) -> None:
        assert isinstance(target.compiled, RuleSet)
        self.rules = target.compiled

    def switches(self) -> list[Report]:
        return self.reports

    def confirm(self, epoch: int) -> None:
        for report in self.reports:
            report.epoch = epoch


@dataclass
class Hosts:
    """Take plans, and confirm them for the first leaf alone."""

    given: list[tuple[int, HostPlans]] = field(default_factory=list)

    @property
    def carry_out_plans(self) -> bool:
        return bool(self.given) and not self.given[-1][1].idle

    def install(self, target: Target) -> None:
        assert isinstance(target.compiled, HostPlans)
        self.given.append((target.epoch, target.compiled))

    def switches(self) -> list[Report]:
        epoch = self.given[-1][0]
        return [Report(key, epoch=epoch - (key != KEYS[0]), waits_for=("h2",) * (key != KEYS[0])) for key in KEYS]


def made() -> tuple[JointEnforcer, Switches, Hosts]:
    switches, hosts = Switches(), Hosts()
    parts: Any = (COMPILER, switches, hosts)
    return JointEnforcer(*parts), switches, hosts


def target(compiled: CarriedRules, epoch: int) -> Target:
    return Target(compiled, epoch, {})


def test_hosts_get_a_plan_once_all_switches_have_the_rules_that_it_needs() -> None:
    joint, switches, hosts = made()
    joint.install(target(BY_HOSTS, 1))
    assert switches.rules is BY_HOSTS
    switches.reports[0].epoch = 1
    joint.see_switches()
    assert not hosts.given
    switches.confirm(1)
    joint.see_switches()
    assert [epoch for epoch, _ in hosts.given] == [1]
    # The next plan needs no other rules: no switch is waited for.
    joint.install(target(BY_HOSTS, 2))
    assert [epoch for epoch, _ in hosts.given] == [1, 2]
    # One that has come back empty is, and one that refuses is not.
    switches.reports[1].epoch = -1
    joint.install(target(BY_HOSTS, 3))
    assert len(hosts.given) == 2
    switches.reports[1].error = "it is full"
    joint.see_switches()
    assert len(hosts.given) == 3


def test_a_switch_follows_when_it_has_its_rules_and_its_hosts_their_plan() -> None:
    joint, switches, _ = made()
    switches.confirm(4)
    joint.install(target(BY_SWITCHES, 4))
    assert joint.switches() is switches.reports
    assert joint.agents is None
    joint.install(target(BY_HOSTS, 5))
    assert {report.epoch for report in joint.switches()} <= {3, 4}
    switches.confirm(5)
    joint.see_switches()
    first, second = joint.switches()[:2]
    assert (first.epoch, second.epoch) == (5, 4)
    assert second.waits_for == ("h2",)


def test_hosts_write_carriers_until_switches_have_the_plan_and_the_rules_for_these_stay() -> None:
    joint, switches, hosts = made()
    joint.install(target(BY_HOSTS, 1))
    switches.confirm(1)
    joint.see_switches()
    joint.install(target(BY_SWITCHES, 2))
    assert [plans.idle for _, plans in hosts.given] == [False]
    switches.confirm(2)
    joint.see_switches()
    assert [plans.idle for _, plans in hosts.given] == [False, True]
    for key in KEYS:
        assert switches.rules[key].rules == {**BY_SWITCHES[key].rules, **BY_HOSTS.needed[key]}
        assert BY_HOSTS[key].groups.items() <= switches.rules[key].groups.items()
    # Back again, no switch changes, and none is waited for.
    joint.install(target(BY_HOSTS, 3))
    assert [epoch for epoch, _ in hosts.given] == [1, 2, 3]


def test_where_switches_carry_out_plans_hosts_are_told_to_send_plain_packets_and_rules_are_those_of_base() -> None:
    assert BY_SWITCHES.switches == compile_base(FABRIC).switches
    content = BY_SWITCHES.hosts.content(0)
    assert (content["destinations"], content["flows"]) == ([], [])
    assert content["decapsulate"]
    assert BY_SWITCHES.hosts.taking_part == frozenset()
    # Nothing is known of hosts whose ports share an address.
    bonds = COMPILER(EnforcementTask(clos(2, 2, 1, planes=2, bond=True), enforcement="per_flow"))
    assert bonds.hosts.fabric is None
