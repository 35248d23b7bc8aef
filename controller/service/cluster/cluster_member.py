"""The part of this replica in its cluster: it beats, takes over when it is elected, and ends when it no longer leads.

A replica leads once in its life: it begins as a follower, and one that has lost the lead starts again as a new process,
so that nothing that it knew of its own term is left (docs/explanation/cluster.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from controller.core.change_number import ChangeNumber
from controller.core.cluster_standing import ClusterSettings, ClusterStanding
from controller.core.errors import ConflictError
from controller.core.ports.election import Electoral
from controller.core.ports.enforcer import Enforcer
from controller.core.ports.runtime import Runtime
from controller.core.ports.store import ReplicaStore
from controller.core.saved.saved_state import SavedState
from controller.model.errors import UnavailableError
from controller.service.cluster.leadership_check import LeadershipCheck

LOG = logging.getLogger("fairspine.service")

BEATS = 8
"""Beats in one lease, and attempts to take over, at least."""

BEAT_SECONDS = 0.5
"""At most from one beat to the next: a replica that has stepped down is back sooner than after an eighth of a long
lease, and another one is to lead."""

SILENT_LEASES = 1.0
"""Leases without a message from any switch after which a replica reports that no switch is connected to it."""

CUT_OFF_LEASES = 1.25
"""The same after which a leader lets another replica lead that has switches. It is more, so that the leader stays where
all replicas lose them: the others have said so by then."""

FRESH_REPORTS = 3
"""Reports of another replica that a leader without switches reads, one after the other. The first one may be as old as
the replica's last beat, and the second one may have been under way; the third one was made after the leader had read
the first, so that replica has heard a switch since the leader did."""


class Following(Protocol):
    """What follows the store until this replica is elected; ``controller.service.cluster.follower.Follower``."""

    saved: SavedState | None

    def start(self) -> None:
        """Begin to follow."""

    def hear(self, newest: ChangeNumber | None) -> None:
        """Take the number of the store's last change."""

    def end(self) -> None:
        """Stop."""


class ClusterMember:
    """One replica; all of it runs on the event loop, so a leader beats only while the loop runs.

    Attributes:
        settings: the cluster as it is configured.
        standing: what the store said last.
        error: why the store does not answer; empty: it does.
        leader_changes: how often this replica has seen another leader than before.
        heard: when the store answered last, ``elected``: when this replica was elected; by the runtime's clock,
            ``None``: it was not yet.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        runtime: Runtime,
        election: Electoral,
        store: ReplicaStore,
        enforcer: Enforcer,
    ) -> None:
        """Begin as a follower; ``start`` begins to beat."""
        self.settings, self._runtime, self._election = settings, runtime, election
        self._store, self._enforcer = store, enforcer
        self.standing, self.error = ClusterStanding(), ""
        self.leader_changes = 0
        self.heard: float | None = None
        self.elected: float | None = None
        self._last_leader = ""
        self._term: int | None = None
        self._stepping_down = False
        self._leads_since = 0.0
        # Of other replicas that have switches while this leader hears none: when the store heard of them, by id.
        self._reports: dict[str, set[float]] = {}
        self._asked_to_end = runtime.signal()
        self._still_leads = LeadershipCheck(runtime, self._ask, seconds=settings.lease)

    def start(
        self, follower: Following, *, began: Callable[[SavedState, int], None], ended: Callable[[str], None]
    ) -> None:
        """Begin to beat.

        Args:
            follower: follows the store until this replica is elected.
            began: called when this replica has been elected, with what the store holds and the term.
            ended: called with the reason when it no longer leads; it starts the program again.
        """
        self._follower = follower
        follower.start()
        self._runtime.spawn(lambda: self._run(began, ended))

    @property
    def leads(self) -> bool:
        """Whether this replica answers clients: it has been elected, and has heard of no later leader."""
        return self._term is not None and not self._stepping_down and not self._enforcer.lost

    @property
    def has_led(self) -> bool:
        """Return whether this replica leads now or has led before: since its election it answers from its own state."""
        return self._term is not None

    def confirms(self) -> bool:
        """Return whether the store says, after this call, that this replica still leads.

        A leader that was stopped, or was cut off from the store, does not know whether another one has begun meanwhile.

        Raises:
            UnavailableError: the store does not answer.
        """
        return self.leads and self._still_leads.holds() and self.leads

    def step_down(self) -> None:
        """Let another replica lead, soon.

        Raises:
            ConflictError: this replica does not lead.
        """
        if not self.leads:
            raise ConflictError("this replica does not lead its cluster")
        self._stepping_down = True
        self._enforcer.withhold_changes("this replica steps down")
        # Nobody leads from now on, so the lock must be free before the next beat is due.
        self._asked_to_end.set()

    def close(self) -> None:
        """Let another replica lead at once; called at the end of the program."""
        self._election.resign(self._enforcer.seen_term)

    def _run(self, began: Callable[[SavedState, int], None], ended: Callable[[str], None]) -> None:
        while not (reason := self._beat(began)):
            self._asked_to_end.wait(min(self.settings.lease / BEATS, BEAT_SECONDS))
        self._enforcer.withhold_changes("this replica does not lead its cluster")
        LOG.warning("term %s has ended: %s; this replica starts again as a follower", self._term, reason)
        self._follower.end()
        self._runtime.offload(self._election.resign, self._enforcer.seen_term)
        ended(reason)

    def _beat(self, began: Callable[[SavedState, int], None]) -> str:
        """Beat once; return why this replica no longer leads (empty: it does, or never did)."""
        if self._stepping_down:
            return "it was asked to step down"
        if self._enforcer.lost:
            return self._enforcer.lost
        if self._store.overtaken:
            return "the store has lost changes, or another program has made some"
        try:
            enforcer = self._enforcer
            self._hear(self._runtime.offload(self._election.beat, enforcer.seen_term, self._switches()))
            if self._term is None and self.standing.leads:
                saved = self._runtime.offload(
                    self._store.lead, self.settings.me.id, self.standing.term, self._follower.saved
                )
                self._lead(saved, began)
            self.error = ""
        except UnavailableError as error:
            if error.reason != self.error:
                LOG.error("the store does not answer: %s", error.reason)
            self.error = error.reason
            return ""
        if self._term is not None and (not self.standing.leads or self.standing.term != self._term):
            return f"term {self.standing.term} has begun"
        return "" if self._term is None else self._cut_off()

    def _switches(self) -> int:
        """Return the number of switches that are connected, 0 where all of them are silent.

        Time in which this process was held up counts: its report is evidence against the leader, which may hear more.
        """
        enforcer = self._enforcer
        return enforcer.connections if enforcer.unheard <= SILENT_LEASES * self.settings.lease else 0

    def _cut_off(self) -> str:
        """Return why this leader is to end if another replica has heard switches since it last did, some time ago."""
        silence = min(self._enforcer.silence, self._runtime.clock() - self._leads_since)
        if silence <= CUT_OFF_LEASES * self.settings.lease:
            self._reports = {}
            return ""
        reports = self._reports
        others = [each for each in self.standing.members if each.id != self.settings.me.id and each.switches]
        self._reports = {each.id: reports.get(each.id, set()) | {each.heard} for each in others}
        witnesses = [each.url for each in others if len(self._reports[each.id]) >= FRESH_REPORTS]
        if not witnesses:
            return ""
        return f"no switch can be reached from this replica for {silence:.1f} s, and some can from {witnesses[0]}"

    def _ask(self) -> bool:
        return self._term is not None and self._election.leads(self._term)

    def _hear(self, standing: ClusterStanding) -> None:
        """Take what the store says."""
        self.standing, self.heard = standing, self._runtime.clock()
        self._follower.hear(standing.change)
        if standing.leads and self.elected is None:
            self.elected = self.heard
        if standing.leader and standing.leader != self._last_leader:
            self.leader_changes += bool(self._last_leader)
            self._last_leader = standing.leader

    def _lead(self, saved: SavedState, began: Callable[[SavedState, int], None]) -> None:
        self._term, self._leads_since = self.standing.term, self._runtime.clock()
        LOG.warning("this replica leads cluster %s for term %d", self.settings.name, self._term)
        began(saved, self._term)
        self._enforcer.lead(self._term)
