"""The number of an answer contains what the answer tells, also when its replica has stopped to lead meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from controller.core.change_number import ChangeNumber
from controller.service.cluster.replica_reads import ReplicaReads
from tests.unit.service.world import Threads


class Replica:
    """A replica that follows, then leads, then has led, and what it and the cluster have changed."""

    def __init__(self) -> None:
        self.follower: Any = SimpleNamespace(change=None)
        self.member: Any = SimpleNamespace(leads=False, has_led=False)
        self.reconciler: Any = SimpleNamespace(published=None)
        self.newest = ChangeNumber(0, 0)
        parts: list[Any] = [self.reconciler, self.member, self.follower]
        self.reads = ReplicaReads(Threads(), *parts)

    def follow(self) -> None:
        if not self.member.has_led:
            self.newest = self.follower.change = ChangeNumber(1, self.newest.number + 1)

    def lead(self) -> None:
        if not self.member.has_led:
            self.member.leads = self.member.has_led = True
            # The first number of a leader is above all of earlier terms.
            self.newest = self.reconciler.published = ChangeNumber(2, self.newest.number)

    def save(self) -> None:
        """Carry out a change of a client: it was accepted by a leader, who may be asked to step down before the end."""
        if self.member.has_led:
            self.newest = self.reconciler.published = ChangeNumber(2, self.newest.number + 1)

    def step_down(self) -> None:
        self.member.leads = False


STEPS = st.sampled_from([Replica.follow, Replica.lead, Replica.save, Replica.step_down])


@given(steps=st.lists(STEPS, max_size=12))
@example(steps=[Replica.lead, Replica.save, Replica.step_down])
@example(steps=[Replica.follow, Replica.lead, Replica.step_down, Replica.save])
def test_each_answer_has_the_number_of_the_newest_change_that_it_contains(steps: list[Any]) -> None:
    replica = Replica()
    for step in steps:
        step(replica)
        assert (replica.reads.change or ChangeNumber(0, 0)) == replica.newest


def test_a_single_controller_has_the_numbers_of_its_store() -> None:
    reconciler: Any = SimpleNamespace(published=ChangeNumber(0, 7))
    assert ReplicaReads(Threads(), reconciler, None, None).change == ChangeNumber(0, 7)
