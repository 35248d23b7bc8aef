"""Host locations: claims are checked, a host that answers keeps its location, and the table is bounded."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controller.model.files.clos import clos
from controller.model.network_state import Location, PortId
from controller.model.switch_key import SwitchKey
from controller.southbound.hosts.host_claims import INTERVAL, MISSES, REPORTED_SECONDS
from controller.southbound.hosts.host_presence import PERIOD
from controller.southbound.hosts.host_table import LOST_SECONDS, HostLimits, HostProbe, HostTable
from controller.southbound.hosts.intended_hosts import IntendedHosts
from tests.unit.laws import examples

A, B, C = PortId(1, 1), PortId(1, 2), PortId(2, 1)
ATTACKER, SECOND = PortId(2, 7), PortId(1, 8)
VICTIM, OTHER = "10.0.1.1", "10.0.1.2"
MAC = {VICTIM: "02:00:00:00:01:01", OTHER: "02:00:00:00:01:02"}
FORGED = "02:66:66:66:66:66"
LIMITS = HostLimits(per_port=3, in_all=8, claims=4)


class World:
    """A table, its ports, and who answers for which address at which port."""

    def __init__(self, intended: IntendedHosts | None = None, limits: HostLimits = LIMITS) -> None:
        self.now = 100.0
        self.state: dict[PortId, bool | None] = {}
        self.loud: set[SwitchKey] = set()
        self.answers: Callable[[str, PortId], str | None] = lambda ip, at: None
        self.asked: list[HostProbe] = []
        self.table = HostTable(
            lambda at: self.state.get(at, True), intended=intended, limits=limits, loud=lambda dpid: dpid in self.loud
        )

    def hears(self, ip: str, mac: str, at: PortId) -> None:
        self.table.heard(ip, mac, at, self.now)

    def passes(self, seconds: float, room: int = 100) -> None:
        for _ in range(round(seconds / 0.1)):
            self.now += 0.1
            probes, _ = self.table.due(self.now, room)
            self.asked += probes
            for ip, at in probes:
                mac = self.answers(ip, at)
                if mac is not None and self.state.get(at, True):
                    self.table.answered(ip, mac, at, self.now)

    def settles(self) -> None:
        self.passes((MISSES + 2) * INTERVAL)

    def placed(self, ip: str, at: PortId) -> None:
        """The host answers at this port, alone, and is found there."""
        self.answers = lambda asked, port: MAC[ip] if (asked, port) == (ip, at) else None
        self.hears(ip, MAC[ip], at)
        self.settles()
        assert self.table.place(ip) == Location(MAC[ip], at)

    def told(self) -> set[tuple[str, str, PortId, str, PortId | None]]:
        return {(c.kind, c.ip, c.at, c.against, c.kept_at) for c in self.table.clashes()}


def answering(*who: tuple[str, PortId]) -> Callable[[str, PortId], str | None]:
    """These answer; what a host does not have a MAC address for, an attacker answers."""
    return lambda ip, at: MAC.get(ip, FORGED) if (ip, at) in who else None


def intended(*, ports: bool = True) -> IntendedHosts:
    fabric = clos(1, 2, 2)
    if not ports:
        fabric = dataclasses.replace(fabric, hosts=tuple(dataclasses.replace(h, port=None) for h in fabric.hosts))
    return IntendedHosts.of(fabric)


# -- bonds ----------------------------------------------------------------------------------------------------


def test_the_ports_of_a_bond_are_each_taken_in_their_network_and_a_thief_meets_the_one_of_its_own() -> None:
    fabric = clos(1, 2, 2, planes=2, bond=True)
    hosts = tuple(dataclasses.replace(host, port=None) for host in fabric.hosts)
    world = World(IntendedHosts.of(dataclasses.replace(fabric, hosts=hosts)))
    ports = {VICTIM: A, f"{VICTIM}%1": PortId(3, 1)}
    world.answers = lambda ip, at: MAC[VICTIM] if ports.get(ip) == at else None
    for ip, at in ports.items():
        world.hears(ip, MAC[VICTIM], at)
    world.settles()
    assert world.table.places() == {ip: Location(MAC[VICTIM], at) for ip, at in ports.items()}
    assert world.told() == set()
    thief, second = PortId(4, 7), f"{VICTIM}%1"
    world.answers = lambda ip, at: MAC[VICTIM] if ports.get(ip) == at or (ip, at) == (second, thief) else None
    world.hears(second, MAC[VICTIM], thief)
    world.settles()
    assert world.told() == {("clash", second, thief, second, ports[second])}
    assert world.table.places() == {ip: Location(MAC[VICTIM], at) for ip, at in ports.items()}


# -- discovery alone ------------------------------------------------------------------------------------------


def test_a_host_is_taken_when_it_answers_a_probe_and_not_before() -> None:
    world = World()
    world.hears(VICTIM, MAC[VICTIM], A)
    assert world.table.place(VICTIM) is None
    world.placed(VICTIM, A)


def test_what_does_not_answer_is_asked_a_few_times_and_forgotten() -> None:
    world = World()
    world.hears(VICTIM, MAC[VICTIM], A)
    world.passes(20)
    assert world.table.place(VICTIM) is None
    assert world.table.n_claims == 0
    assert world.asked == [HostProbe(VICTIM, A)] * MISSES
    assert world.told() == set()


@pytest.mark.parametrize("answers", [False, True])
def test_a_forged_claim_moves_nothing_and_is_reported_with_both_ports_until_it_is_over(answers: bool) -> None:
    world = World()
    world.placed(VICTIM, A)
    world.answers = answering((VICTIM, A), *([(VICTIM, ATTACKER)] if answers else []))
    world.hears(VICTIM, MAC[VICTIM], ATTACKER)
    world.settles()
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], A)
    assert world.told() == {("clash", VICTIM, ATTACKER, VICTIM, A)}
    world.answers = answering((VICTIM, A))
    world.passes(REPORTED_SECONDS + 20)
    assert world.told() == set()
    assert world.table.n_claims == 0


def test_two_hosts_with_one_address_are_reported_for_as_long_as_both_answer() -> None:
    world = World()
    world.placed(VICTIM, A)
    world.answers = answering((VICTIM, A), (VICTIM, C))
    world.hears(VICTIM, MAC[VICTIM], C)
    world.passes(5 * REPORTED_SECONDS)
    assert world.told() == {("clash", VICTIM, C, VICTIM, A)}
    world.state[C] = False
    world.passes(20)
    assert world.told() == set()


def test_a_host_that_moves_is_found_within_three_seconds_without_a_report() -> None:
    world = World()
    world.placed(VICTIM, A)
    world.answers = answering((VICTIM, C))
    world.hears(VICTIM, MAC[VICTIM], C)
    world.passes(3.0)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], C)
    assert world.told() == set()


@pytest.mark.parametrize("down", [False, True])
def test_a_host_that_says_nothing_when_it_moves_is_missed_and_searched_for(down: bool) -> None:
    world = World()
    world.placed(VICTIM, A)
    world.passes(60)
    assert world.table.newly_away() == []
    world.state[A] = not down
    world.answers = answering((VICTIM, C))
    world.passes(PERIOD + (MISSES + 2) * INTERVAL)
    assert world.table.newly_away() == [VICTIM]
    assert world.table.newly_away() == []
    assert world.table.is_away(VICTIM)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], A)
    # A search finds it.
    world.table.answered(VICTIM, MAC[VICTIM], C, world.now)
    world.passes(3.0)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], C)
    assert not world.table.is_away(VICTIM)


def test_hosts_are_asked_whether_they_are_there_so_often_as_is_allowed() -> None:
    world = World(limits=HostLimits(per_port=1000, checks_per_second=5.0))
    world.answers = lambda ip, at: f"02:00:00:00:09:{int(ip.rpartition('.')[2]):02x}"
    for n in range(100):
        world.table.answered(f"10.0.9.{n}", f"02:00:00:00:09:{n:02x}", A, world.now)
    assert len(world.table) == 100
    world.passes(30)
    world.asked.clear()
    world.passes(100)
    assert {ip for ip, _ in world.asked} == set(world.table.places())
    assert len(world.asked) <= 100 * 5.0 + 64
    assert world.table.newly_away() == []


def test_a_host_whose_old_port_is_down_is_followed_at_its_first_answer() -> None:
    world = World()
    world.placed(VICTIM, A)
    world.state[A] = False
    world.answers = answering((VICTIM, C))
    world.hears(VICTIM, MAC[VICTIM], C)
    world.passes(0.2)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], C)


def test_a_host_that_moves_only_after_a_clash_is_followed_then() -> None:
    world = World()
    world.placed(VICTIM, A)
    world.answers = answering((VICTIM, A), (VICTIM, C))
    world.hears(VICTIM, MAC[VICTIM], C)
    world.settles()
    world.answers = answering((VICTIM, C))
    world.passes(13.0)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], C)
    assert world.told() == set()


def test_the_silence_of_hosts_on_a_switch_that_sends_too_much_means_nothing() -> None:
    world = World()
    world.placed(VICTIM, A)
    world.answers = answering((VICTIM, ATTACKER))
    world.loud = {A.switch}
    world.hears(VICTIM, FORGED, ATTACKER)
    world.passes(60)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], A)


def test_hosts_of_a_leaf_that_is_not_connected_keep_their_place_for_a_minute() -> None:
    world = World()
    world.placed(VICTIM, A)
    world.state[A] = None
    world.answers = answering((VICTIM, C))
    world.hears(VICTIM, MAC[VICTIM], C)
    world.passes(LOST_SECONDS - 5)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], A)
    world.passes(10)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], C)


def test_the_mac_address_of_a_host_elsewhere_is_a_claim_too() -> None:
    world = World()
    world.placed(VICTIM, A)
    world.answers = lambda ip, at: MAC[VICTIM] if (ip, at) in ((VICTIM, A), ("10.0.9.9", ATTACKER)) else None
    world.hears("10.0.9.9", MAC[VICTIM], ATTACKER)
    world.settles()
    assert world.table.place("10.0.9.9") is None
    assert world.told() == {("clash", "10.0.9.9", ATTACKER, VICTIM, A)}


def test_a_host_that_was_there_before_a_restart_keeps_its_place_while_it_answers() -> None:
    world = World()
    world.table.recall(VICTIM, A)
    world.answers = answering((VICTIM, A), (VICTIM, ATTACKER))
    world.hears(VICTIM, FORGED, ATTACKER)
    world.settles()
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], A)
    gone = World()
    gone.table.recall(VICTIM, A)
    gone.answers = answering((VICTIM, C))
    gone.hears(VICTIM, MAC[VICTIM], C)
    gone.settles()
    assert gone.table.place(VICTIM) == Location(MAC[VICTIM], C)


def test_a_port_has_a_limit_of_hosts_and_further_ones_are_reported() -> None:
    world = World()
    world.answers = lambda ip, at: f"02:00:00:00:09:{int(ip.rpartition('.')[2]):02x}"
    for n in range(1, 5):
        world.hears(f"10.0.9.{n}", f"02:00:00:00:09:{n:02x}", A)
        world.settles()
    assert len(world.table) == LIMITS.per_port
    assert world.told() == {("full", "10.0.9.4", A, "", None)}


def test_claims_of_one_port_do_not_push_out_those_of_another() -> None:
    world = World()
    world.answers = answering((VICTIM, A))
    world.hears(VICTIM, MAC[VICTIM], A)
    for n in range(5000):
        world.hears(f"10.{n // 256**2}.{n // 256 % 256}.{n % 256}", FORGED, ATTACKER)
    assert world.table.n_claims <= LIMITS.claims + 1
    world.settles()
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], A)


def test_ports_take_turns_when_probes_are_scarce() -> None:
    world = World()
    world.answers = answering((VICTIM, A))
    for round_ in range(100):
        world.hears(f"10.7.0.{round_}", FORGED, ATTACKER)
        if round_ == 20:
            world.hears(VICTIM, MAC[VICTIM], A)
        world.passes(0.1, room=1)
    assert world.table.place(VICTIM) == Location(MAC[VICTIM], A)


# -- with a fabric file ---------------------------------------------------------------------------------------


def test_a_host_whose_port_the_file_names_stays_there_though_it_is_silent_and_answers_elsewhere() -> None:
    world = World(intended())
    world.answers = answering((VICTIM, PortId(1, 9)))
    world.hears(VICTIM, MAC[VICTIM], PortId(1, 9))
    world.settles()
    assert world.table.place(VICTIM) is None
    assert world.told() == {("misplaced", VICTIM, PortId(1, 9), VICTIM, A)}


def test_a_forged_claim_to_a_host_of_the_file_is_reported_with_both_ports() -> None:
    world = World(intended())
    world.answers = answering((VICTIM, A))
    world.hears(VICTIM, MAC[VICTIM], ATTACKER)
    world.settles()
    assert world.told() == {("clash", VICTIM, ATTACKER, VICTIM, A)}


def test_a_host_of_which_the_file_names_the_leaf_is_placed_there_at_an_unused_port() -> None:
    world = World(intended(ports=False))
    for at in (PortId(2, 1), PortId(1, 3)):
        # Another leaf; the port of a cable.
        world.answers = answering((VICTIM, at))
        world.hears(VICTIM, MAC[VICTIM], at)
        world.settles()
        assert world.table.place(VICTIM) is None
        assert ("misplaced", VICTIM, at, "", None) in world.told()
    world.placed(VICTIM, A)
    # The only host of a port keeps it while it answers.
    world.answers = answering((VICTIM, A), (OTHER, A))
    world.hears(OTHER, MAC[OTHER], A)
    world.settles()
    assert world.table.place(OTHER) is None
    assert ("clash", OTHER, A, VICTIM, A) in world.told()


def test_two_hosts_of_a_leaf_whose_cables_are_swapped_are_both_followed() -> None:
    world = World(intended(ports=False))
    world.placed(VICTIM, A)
    world.placed(OTHER, B)
    world.answers = answering((VICTIM, B), (OTHER, A))
    for _ in range(3):
        world.hears(VICTIM, MAC[VICTIM], B)
        world.hears(OTHER, MAC[OTHER], A)
        world.passes(6)
    assert world.table.places() == {VICTIM: Location(MAC[VICTIM], B), OTHER: Location(MAC[OTHER], A)}


def test_addresses_that_the_file_does_not_know_leave_nothing_behind() -> None:
    world = World(intended())
    for n in range(1000):
        world.hears(f"10.9.{n // 256}.{n % 256}", FORGED, ATTACKER)
    assert world.table.n_claims == 0


def test_one_nic_of_a_server_may_answer_for_another() -> None:
    fabric = clos(1, 2, 2)
    hosts = tuple(dataclasses.replace(host, server="node") for host in fabric.hosts)
    world = World(IntendedHosts.of(dataclasses.replace(fabric, hosts=hosts)))
    world.hears(VICTIM, MAC[OTHER], B)
    world.settles()
    assert world.told() == set()


# -- laws -----------------------------------------------------------------------------------------------------

ADDRESSES = [VICTIM, OTHER, "10.0.9.1", "10.0.9.2", "10.0.9.3", "10.0.9.4"]
MACS = [*MAC.values(), FORGED, "02:77:77:77:77:77"]


class Attack(RuleBasedStateMachine):
    """Two honest hosts that answer at their ports, and attackers at two other ports who do what they like."""

    @initialize(file=st.booleans(), loud=st.booleans())
    def begins(self, file: bool, loud: bool) -> None:
        self.world = World(intended() if file else None)
        self.home = {VICTIM: A, OTHER: B}
        self.lying: set[tuple[str, PortId]] = set()
        self.world.answers = self.answer
        for ip, at in self.home.items():
            self.world.hears(ip, MAC[ip], at)
        self.world.settles()
        assert {ip: self.world.table.place(ip) for ip in self.home} == self.places()
        if loud:
            self.world.loud = {1}

    def answer(self, ip: str, at: PortId) -> str | None:
        if self.home.get(ip) == at:
            # On a switch that sends too much, answers are lost.
            return None if at.switch in self.world.loud else MAC[ip]
        return FORGED if (ip, at) in self.lying else None

    def places(self) -> dict[str, Location]:
        return {ip: Location(MAC[ip], at) for ip, at in self.home.items()}

    attackers = st.sampled_from([ATTACKER, SECOND])

    @rule(ip=st.sampled_from(ADDRESSES), mac=st.sampled_from(MACS), at=attackers)
    def claims(self, ip: str, mac: str, at: PortId) -> None:
        self.world.hears(ip, mac, at)

    @rule(ip=st.sampled_from(ADDRESSES), mac=st.sampled_from(MACS), at=attackers)
    def answers_a_probe(self, ip: str, mac: str, at: PortId) -> None:
        self.world.table.answered(ip, mac, at, self.world.now)

    @rule(ip=st.sampled_from(ADDRESSES), at=attackers, lies=st.booleans())
    def will_answer(self, ip: str, at: PortId, lies: bool) -> None:
        (self.lying.add if lies else self.lying.discard)((ip, at))

    @rule(at=attackers, state=st.sampled_from([True, False, None]))
    def port(self, at: PortId, state: bool | None) -> None:
        self.world.state[at] = state

    @rule(ip=st.sampled_from(sorted(MAC)))
    def honest_host_speaks(self, ip: str) -> None:
        self.world.hears(ip, MAC[ip], self.home[ip])

    @rule(at=attackers)
    def port_leads_to_a_switch(self, at: PortId) -> None:
        self.world.table.forget_at((at,))

    @rule(seconds=st.sampled_from([0.1, 0.5, 3.0, 12.0, 70.0]), room=st.sampled_from([1, 3, 100]))
    def time_passes(self, seconds: float, room: int) -> None:
        self.world.passes(seconds, room)

    @invariant()
    def honest_hosts_are_where_they_are(self) -> None:
        if hasattr(self, "world"):
            assert {ip: self.world.table.place(ip) for ip in self.home} == self.places()

    @invariant()
    def everything_is_bounded_and_agrees(self) -> None:
        if not hasattr(self, "world"):
            return
        table = self.world.table
        places = table.places()
        for at in {place.at for place in places.values()}:
            assert sum(place.at == at for place in places.values()) <= LIMITS.per_port
        assert len(places) <= LIMITS.in_all
        claims = list(table._claims)
        assert len(claims) == table.n_claims <= 4 * LIMITS.claims
        assert table.taken_ports() == {place.at for place in places.values()}
        assert {ip for ips in table._of_mac.values() for ip in ips} == places.keys()
        held = {(ip, id(claim)) for ip, each in table._claims._against.items() for claim in each.values()}
        watched = {*table._presence._next, *table._presence._asked}
        assert watched == {ip for ip in places if table._intended is None or ip not in table._intended.ports}
        assert table._presence.away <= watched
        assert held == {(ip, id(claim)) for claim in claims for ip in claim.rivals}


TestAttack = Attack.TestCase
TestAttack.settings = settings(max_examples=examples(25, 400), stateful_step_count=30, deadline=None)
