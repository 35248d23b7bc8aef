"""A replica leads once, after the store has elected it and has given it what it holds; then it ends for good."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from controller.core.change_number import ChangeNumber
from controller.core.cluster_standing import ClusterSettings, ClusterStanding, ReplicaEntry
from controller.core.errors import ConflictError
from controller.core.saved.saved_state import SavedState
from controller.model.network_state import NetworkState
from controller.service.cluster.cluster_member import BEATS, CUT_OFF_LEASES, FRESH_REPORTS, SILENT_LEASES, ClusterMember
from controller.store.errors import StoreError
from controller.views.cluster import counts
from tests.unit.service.world import Ended, FakeSouthbound, Signal, Threads

FOLLOWS = ClusterStanding(4, "other")
MEMBERS = (ReplicaEntry("me", "http://me", "1"), ReplicaEntry("other", "http://other", "1", is_live=False))
LEADS = ClusterStanding(5, "me", leads=True, members=MEMBERS)
DOWN = StoreError("no answer")

Step = ClusterStanding | StoreError | Callable[["Replica"], None]
"""What the store says in one beat, or what happens before the next."""


class NextBeat(Signal):
    """What a replica waits for between two beats; ``seconds``: how long it would have waited in all."""

    def __init__(self, runtime: Beats, go_on: Callable[[], bool]) -> None:
        super().__init__(runtime)
        self._go_on = go_on
        self.seconds = 0.0

    def wait(self, seconds: float | None = None) -> None:
        assert seconds is not None
        if not self._go_on():
            raise Ended
        if not self._event.is_set():
            self.seconds += seconds


class Beats(Threads):
    """A runtime that runs a task at once, until it waits after the last step; the first signal ends such a wait."""

    def __init__(self, go_on: Callable[[], bool]) -> None:
        super().__init__()
        self.next_beat = NextBeat(self, go_on)
        self._made = False

    def clock(self) -> float:
        return self.next_beat.seconds

    def spawn(self, task: Callable[[], None]) -> None:
        with suppress(Ended):
            task()

    def signal(self) -> Signal:
        first, self._made = not self._made, True
        return self.next_beat if first else super().signal()


class Followed:
    """What follows the store; ``heard``: the numbers that it was told, ``None`` at its end."""

    def __init__(self) -> None:
        self.saved: SavedState | None = SavedState(drained=frozenset({"spine1"}))
        self.heard: list[ChangeNumber | None] = []
        self.ended = False

    def start(self) -> None:
        pass

    def hear(self, newest: ChangeNumber | None) -> None:
        self.heard.append(newest)

    def end(self) -> None:
        self.ended = True


class Replica:
    """A replica, its election and its store; ``steps`` happen at once."""

    def __init__(self, *steps: Step, store_fails: int = 0, lease: float = 1.0) -> None:
        self._steps, self._store_fails = list(steps), store_fails
        self.runtime = runtime = Beats(self._go_on)
        self.southbound = FakeSouthbound(Threads(), NetworkState())
        self.store_term = LEADS.term
        self.overtaken = False
        self.silent_since: float | None = None
        self.told: list[int] = []
        self.resigned: list[int] = []
        self.taken: list[int] = []
        self.began: list[SavedState] = []
        self.ended: list[str] = []
        settings = ClusterSettings("a", lease, ReplicaEntry("me", "http://me", "1"))
        self.member = ClusterMember(settings, runtime, self, self, self.southbound)
        self._go_on()
        self.followed = Followed()
        self.member.start(self.followed, began=lambda saved, term: self.began.append(saved), ended=self.ended.append)

    def _go_on(self) -> bool:
        """Let happen what comes before the next beat; return whether there is one."""
        while self._steps and callable(step := self._steps[0]):
            step(self)
            del self._steps[0]
        if self.silent_since is not None:
            self.southbound.silence = self.southbound.unheard = self.runtime.clock() - self.silent_since
        return bool(self._steps)

    def beat(self, seen: int = 0, switches: int = 0) -> ClusterStanding:
        self.told.append(switches)
        step = self._steps.pop(0)
        if isinstance(step, StoreError):
            raise step
        assert isinstance(step, ClusterStanding)
        # Those that work have beaten since the last time.
        members = (replace(each, heard=each.heard + len(self.told) * each.is_live) for each in step.members)
        return replace(step, members=tuple(members))

    def leads(self, term: int) -> bool:
        return term == self.store_term

    def resign(self, seen: int = 0) -> None:
        self.resigned.append(seen)

    def read(self, known: SavedState | None = None) -> tuple[ChangeNumber | None, SavedState]:
        raise AssertionError("its follower reads")

    def lead(self, replica: str, term: int, known: SavedState | None = None) -> SavedState:
        if self._store_fails:
            self._store_fails -= 1
            raise DOWN
        assert known is self.followed.saved
        self.taken.append(term)
        return SavedState()


def lose(replica: Replica) -> None:
    replica.southbound.lost = "leaf1 has a master of a later term"


def lose_switches(replica: Replica) -> None:
    replica.southbound.connections = 0
    hear_nothing(replica)


def hear_nothing(replica: Replica) -> None:
    """Make all switches silent from now on; their connections stay open."""
    replica.silent_since = replica.runtime.clock()


def find_switches(replica: Replica) -> None:
    replica.southbound.connections = 1
    replica.southbound.silence, replica.southbound.unheard, replica.silent_since = 0.0, 0.0, None


def beside(**other: bool | int) -> ClusterStanding:
    """What the store says to the leader, and of the other replica."""
    return replace(LEADS, members=(MEMBERS[0], replace(MEMBERS[1], **other)))  # type: ignore[arg-type]


def lose_changes(replica: Replica) -> None:
    replica.overtaken = True


def step_down(replica: Replica) -> None:
    replica.member.step_down()


def test_a_follower_leads_once_the_store_says_so() -> None:
    follower = Replica(FOLLOWS, FOLLOWS)
    assert (follower.member.leads, follower.began, follower.southbound.terms) == (False, [], [])
    assert not follower.member.has_led
    leader = Replica(FOLLOWS, LEADS, LEADS)
    assert leader.member.leads
    assert leader.member.has_led
    assert (leader.taken, leader.southbound.terms, len(leader.began)) == ([5], [5], 1)


def test_a_leader_asks_the_store_whether_it_still_leads_and_a_follower_knows() -> None:
    leader = Replica(LEADS)
    assert leader.member.confirms()
    leader.store_term = 6
    assert not leader.member.confirms()
    leader.store_term = 5
    lose(leader)
    assert not leader.member.confirms()
    assert not Replica(FOLLOWS).member.confirms()


def test_a_replica_that_cannot_read_the_store_does_not_lead_yet() -> None:
    assert not Replica(LEADS, store_fails=1).member.leads
    replica = Replica(LEADS, LEADS, store_fails=1)
    assert replica.member.leads
    assert len(replica.began) == 1


def test_a_leader_goes_on_while_the_store_does_not_answer() -> None:
    replica = Replica(LEADS, DOWN, DOWN)
    assert replica.member.leads
    assert replica.member.error == "no answer"
    assert Replica(LEADS, DOWN, LEADS).member.error == ""


@pytest.mark.parametrize(
    "end",
    [ClusterStanding(6, "other"), ClusterStanding(6, "me", leads=True), lose, lose_changes, step_down],
    ids=["another leads", "elected again", "lost a switch", "the store has lost changes", "asked"],
)
def test_a_leader_ends_for_good_when_its_term_has_ended_or_the_store_is_not_as_it_left_it(end: Step) -> None:
    replica = Replica(LEADS, end, LEADS, LEADS, LEADS)
    assert len(replica.ended) == len(replica.resigned) == 1
    assert replica.southbound.withheld
    assert replica.taken == [5]


OTHER_HAS_SWITCHES = beside(is_live=True, switches=1)
PATIENCE = [OTHER_HAS_SWITCHES] * int(CUT_OFF_LEASES * BEATS)
"""Beats of the time for which a leader may be without switches."""


@pytest.mark.parametrize("begin", [lose_switches, hear_nothing])
def test_a_leader_without_switches_ends_after_some_time_if_another_replica_has_some(begin: Step) -> None:
    assert Replica(LEADS, begin, *PATIENCE, *[OTHER_HAS_SWITCHES] * (FRESH_REPORTS - 1)).ended == []
    cut_off = Replica(LEADS, begin, *PATIENCE, *[OTHER_HAS_SWITCHES] * (FRESH_REPORTS + 1))
    assert [reason.partition(" for ")[0] for reason in cut_off.ended] == ["no switch can be reached from this replica"]
    assert len(cut_off.resigned) == 1
    assert cut_off.southbound.withheld


@pytest.mark.parametrize(
    "standing",
    [beside(is_live=True), beside(is_live=False, switches=1), LEADS],
    ids=["the other has none", "the other is missing", "nobody has any"],
)
def test_a_leader_without_switches_goes_on_if_no_other_replica_has_any(standing: ClusterStanding) -> None:
    assert Replica(LEADS, lose_switches, *[standing] * (4 * len(PATIENCE))).ended == []


def test_only_reports_that_follow_each_other_while_the_leader_hears_nothing_count() -> None:
    missing = beside(is_live=True, switches=0)
    reports = [OTHER_HAS_SWITCHES] * (FRESH_REPORTS - 1)
    assert Replica(LEADS, lose_switches, *PATIENCE, *[*reports, missing] * 5).ended == []
    back: list[Step] = [lose_switches, *PATIENCE, *reports, find_switches, *reports]
    assert Replica(LEADS, *back, *back).ended == []


def test_a_follower_that_was_held_up_does_not_report_switches_that_it_has_not_heard_since() -> None:
    def held_up(replica: Replica) -> None:
        replica.southbound.unheard = 3.0

    assert Replica(FOLLOWS, held_up, FOLLOWS).told == [1, 0]


def test_a_leader_whose_switches_come_back_in_time_goes_on() -> None:
    again: list[Step] = [lose_switches, *PATIENCE, find_switches, OTHER_HAS_SWITCHES]
    assert Replica(LEADS, *again, *again, *again).ended == []


def test_a_follower_without_switches_ends_nothing_and_each_replica_tells_how_many_it_has() -> None:
    follows = replace(FOLLOWS, members=OTHER_HAS_SWITCHES.members)
    beats = 2 * len(PATIENCE)
    follower = Replica(follows, lose_switches, *[follows] * beats)
    assert follower.ended == []
    assert follower.told == [1] + [0] * beats
    silent = Replica(follows, hear_nothing, *[follows] * beats)
    patience = int(SILENT_LEASES * BEATS) + 1
    assert silent.told == [1] * (1 + patience) + [0] * (beats - patience)


def test_a_new_leader_without_switches_has_the_same_time_to_reach_some() -> None:
    follows = replace(FOLLOWS, members=OTHER_HAS_SWITCHES.members)
    begun: list[Step] = [lose_switches, *[follows] * (3 * BEATS), LEADS]
    assert Replica(*begun, *PATIENCE).ended == []
    assert len(Replica(*begun, *PATIENCE, *[OTHER_HAS_SWITCHES] * (FRESH_REPORTS + 1)).ended) == 1


def test_a_leader_that_steps_down_answers_no_client_from_then_on() -> None:
    seen: list[bool] = []

    def ask(replica: Replica) -> None:
        replica.member.step_down()
        seen.append(replica.member.leads)

    Replica(LEADS, ask, LEADS)
    assert seen == [False]


def test_a_leader_that_is_asked_to_step_down_does_not_wait_for_its_next_beat() -> None:
    # One lease of 1 s has eight beats. A lost switch is found at the next beat, a request at once.
    assert Replica(LEADS, LEADS, lose, LEADS).runtime.next_beat.seconds == pytest.approx(2 / 8)
    assert Replica(LEADS, LEADS, step_down, LEADS).runtime.next_beat.seconds == pytest.approx(1 / 8)


def test_replicas_look_for_a_leader_twice_a_second_at_least() -> None:
    # One that has stepped down must not be the first that comes again.
    assert Replica(FOLLOWS, FOLLOWS, FOLLOWS, lease=60.0).runtime.next_beat.seconds == pytest.approx(2 * 0.5)


def test_a_follower_cannot_step_down() -> None:
    with pytest.raises(ConflictError, match="does not lead"):
        Replica(FOLLOWS).member.step_down()


def test_changes_of_the_leader_are_counted_and_the_first_one_seen_is_none() -> None:
    assert Replica(ClusterStanding(), FOLLOWS, FOLLOWS, DOWN, FOLLOWS).member.leader_changes == 0
    other = ClusterStanding(5, "third")
    assert Replica(FOLLOWS, ClusterStanding(4, ""), FOLLOWS, other, LEADS, LEADS).member.leader_changes == 2


def test_a_replica_knows_when_the_store_answered_and_when_it_was_elected() -> None:
    silent = Replica(DOWN).member
    assert (silent.heard, silent.elected) == (None, None)
    follower = Replica(FOLLOWS).member
    assert (follower.heard is not None, follower.elected) == (True, None)
    leader = Replica(LEADS, LEADS, store_fails=1).member
    assert leader.elected is not None
    assert leader.heard is not None
    assert leader.elected <= leader.heard


def test_the_metrics_of_a_replica_say_how_it_does() -> None:
    assert counts(None, 1.0, None) is None
    waits = counts(Replica(DOWN).member, 10.0, None)
    assert waits is not None
    assert (waits.role, waits.lag, waits.take_over) == ("follower", None, None)
    member = Replica(LEADS).member
    assert member.elected is not None
    leads = counts(member, member.elected + 3.0, member.elected + 2.0)
    assert leads is not None
    assert (leads.role, leads.term, leads.works, leads.missing) == ("leader", 5, 1, 1)
    assert (leads.lag, leads.take_over) == (pytest.approx(3.0), pytest.approx(2.0))


def test_the_highest_term_that_switches_know_is_told_to_the_store() -> None:
    def see(replica: Replica) -> None:
        replica.southbound.seen_term = 11
        lose(replica)

    assert Replica(LEADS, see, LEADS).resigned == [11]
