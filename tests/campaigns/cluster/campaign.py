"""Faults of a cluster, one after the other, beside requests and pings; after each, everything is checked."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from controller.model.fabric import Fabric
from emulation.errors import LabError
from emulation.http_client import NoResponseError
from emulation.lab import Lab
from emulation.pings import Tally
from emulation.processes import POLL_SECONDS, Pauses
from tests.campaigns.cluster.clients import JOBS, ClientLoad, Clients
from tests.campaigns.cluster.history import (
    JobOperation,
    open_writes,
    with_lost_write,
    with_stale_read,
    with_stale_session_read,
    wrong_registers,
)
from tests.campaigns.cluster.kinds import ClusterFault
from tests.campaigns.cluster.outcome import FaultRound
from tests.campaigns.cluster.replicas import Replica, Replicas
from tests.campaigns.cluster.rule_changes import RuleChanges
from tests.campaigns.cluster.sessions import sessions_that_went_back, with_swapped_reads
from tests.campaigns.faults import check
from tests.campaigns.faults.state import FaultState
from tests.campaigns.faults.world import Broken

RIGHT_WITHIN = 60.0
"""Seconds after the end of a fault in which everything has to be right again."""

WARM_SECONDS = 1.0
"""Of requests before a fault, at least, so that some are under way when it begins."""

RECOVERED_WITHIN = 30.0
"""Seconds after the begin of a fault in which another replica has to lead, if it replaces the leader."""

SPOILED = 20
"""Histories of each kind of seeded error that the checker has to reject in each campaign."""

HARMLESS = (
    ("OFPRRFC_STALE", "a follower asks for its role with the term that it has read, while the leader becomes master"),
    ("OFPBRC_IS_S", "a leader that was stopped goes on with what it was about to send"),
    ("no response to inactivity probe", "switches notice a leader that is stopped, or cut off from them"),
    (r"\|dpif_netdev\|ERR\|Dropped \d+ log messages", "interfaces of switches that restart"),
)

_END = re.compile("term [0-9]+ has ended|has been silent for|the store does not answer")
"""Why a leader was replaced, in the log of any replica."""

Say = Callable[[str], None]


class ClusterCheckError(Exception):
    """A round failed, or the logs contain errors."""


class ClusterCampaign:
    """Replicas, clients and pings on a running lab, and the rounds.

    Attributes:
        rounds: what the passed rounds cost.
        rejected: histories with a seeded error that the checker rejected, and all of them.
    """

    def __init__(
        self,
        replicas: Replicas,
        fabric: Fabric,
        seed: int,
        say: Say,
        *,
        rate: float,
        right_within: float = RIGHT_WITHIN,
    ) -> None:
        """Prepare a campaign on running replicas; ``rate``: requests a second."""
        self.rounds: list[FaultRound] = []
        self.rejected = (0, 0)
        self._seed, self._say, self._rate, self._right_within = seed, say, rate, right_within
        self._replicas, self._lab, self._fabric = replicas, replicas.lab, fabric
        self._rng = random.Random(seed)
        self._state = FaultState(fabric)
        self._changes = RuleChanges(replicas.lab)
        self._contents: Mapping[str, int | None] = {}
        # Writes of earlier rounds that may take place in this one.
        self._open: list[JobOperation] = []

    def run(self, kinds: Sequence[ClusterFault]) -> None:
        """Run a round of each of these kinds, in this order.

        Raises:
            ClusterCheckError: a round failed, or the logs contain errors; names the round and the deviation.
        """
        hosts = self._fabric.nic_names
        with ExitStack() as stack:
            self._right("start", [])
            self._changes.start()
            clients = stack.enter_context(Clients(self._replicas.all, hosts, self._seed, rate=self._rate))
            for number, kind in enumerate(kinds, start=1):
                name = f"round {number}, {kind.name}"
                try:
                    self._round(name, kind, clients, writes=kind.writes or number % 2 == 1)
                except (Broken, LabError, NoResponseError) as error:
                    raise self._failure(name, str(error)) from None
        if found := self._lab.problems(harmless=HARMLESS):
            raise ClusterCheckError("in the logs:\n" + "\n".join(found))
        if self.rejected[0] < self.rejected[1]:
            raise ClusterCheckError(f"of {self.rejected[1]} spoiled histories, {self.rejected[0]} were rejected")

    def _round(self, name: str, kind: ClusterFault, clients: Clients, *, writes: bool) -> None:
        leader = self._replicas.leader()
        term = leader.term
        self._changes.new()
        with self._lab.pinging(interval=0.1) as tally:
            clients.send(ClientLoad.ALL if writes else ClientLoad.READS)
            self._warm_up(clients, writes=writes)
            kind.prepare(self._replicas, leader)
            begun = time.monotonic()
            end = kind.begin(self._replicas, leader)
            try:
                read_back = self._watched(kind, leader, term, begun)
            finally:
                end()
            if writes:
                self._wait_for_writes(clients, begun)
            clients.send(ClientLoad.NOTHING)
            for replica in self._replicas.all:
                self._replicas.start(replica)
            self._right(name, clients.so_far())
            changes = None if writes or kind.empties or self._was_written_late() else self._changes.new()
        operations = clients.take()
        lost_changes = self._check_history(name, operations, clients, may_lose=kind.may_lose)
        if kind.empties:
            self._changes.start()
        lost = _lost(tally)
        if lost and not kind.empties:
            raise Broken(f"{lost} pings were lost")
        if changes:
            raise Broken(f"{changes} rules were changed, though nothing of the network or the jobs was")
        known = self._replicas.leader()
        if kind.stays and known.term > term:
            raise Broken(f"{known.name} leads now, though {leader.name} could have stayed: {self._why_ended()}")
        self.rounds.append(
            FaultRound(
                kind.name,
                _first_write(operations, begun),
                read_back,
                lost,
                lost_changes,
                changes,
                len(operations),
                sum(op.writes and not op.is_acknowledged for op in operations),
                known.term > term,
                sum(op.by_follower for op in operations),
            )
        )
        self._say(f"{name}: {_said(self.rounds[-1])}")

    def _warm_up(self, clients: Clients, *, writes: bool) -> None:
        """Wait until requests are under way, and, where clients write, until their answers could show an error."""
        deadline = time.monotonic() + self._right_within
        time.sleep(WARM_SECONDS)
        while writes and with_lost_write(clients.so_far(), self._rng) is None:
            if time.monotonic() > deadline:
                raise Broken(f"within {self._right_within:g} s, no change is replaced and read again")
            time.sleep(POLL_SECONDS)

    def _watched(self, kind: ClusterFault, leader: Replica, term: int, begun: float) -> float | None:
        """Wait until the fault is to end; return after how many seconds a later leader had read all switches back."""
        others = [replica for replica in self._replicas.all if replica is not leader]
        found: float | None = None
        while True:
            now = time.monotonic() - begun
            if found is None and any(replica.has_taken_over(term) for replica in others):
                found = time.monotonic() - begun
            if now >= kind.seconds and (found is not None or not kind.replaced):
                return found
            if now > kind.seconds + RECOVERED_WITHIN:
                raise Broken(f"no other replica has taken over within {now:.0f} s")
            time.sleep(POLL_SECONDS)

    def _wait_for_writes(self, clients: Clients, begun: float) -> None:
        deadline = time.monotonic() + self._right_within
        while _first_write(clients.so_far(), begun) is None:
            if time.monotonic() > deadline:
                raise Broken(f"no change is accepted within {self._right_within:g} s after the fault")
            time.sleep(POLL_SECONDS)

    # -- checks ------------------------------------------------------------------------------------------------

    def _right(self, name: str, operations: Sequence[JobOperation]) -> None:
        """Wait until one replica leads, the others follow it, and the switches have the rules of its jobs."""
        deadline, pauses = time.monotonic() + self._right_within, Pauses()
        while True:
            try:
                leader = self._replicas.leader()
                term = leader.term
                behind = [replica.name for replica in self._replicas.all if replica.term != term]
                if behind:
                    raise Broken(f"{', '.join(behind)} do not follow the leader of term {term}")
                self._state.jobs = _jobs(leader)
                with _Seen(self._lab, self._state, leader) as seen:
                    check.settled(seen)
                    check.reaches(seen)
                return
            except (Broken, NoResponseError) as error:
                wrong = str(error)
            if time.monotonic() > deadline:
                raise self._failure(name, f"not right within {self._right_within:g} s: {wrong}")
            pauses.sleep()

    def _check_history(self, name: str, operations: Sequence[JobOperation], clients: Clients, *, may_lose: bool) -> int:
        """Check what clients were told against what the jobs are in the end; then check the checker.

        Returns:
            The number of jobs of which they were told what cannot be, if changes may be lost.
        """
        before = self._contents
        after = {name: _bytes(document) for name, document in self._state.jobs.items()}
        last = time.monotonic()
        names = [f"job{n}" for n in range(JOBS)]
        final = [JobOperation(job, False, after.get(job), last, last) for job in names]
        operations = [*self._open, *operations, *final]
        wrong = sorted({*wrong_registers(operations, before), *sessions_that_went_back(operations)})
        if wrong and not may_lose:
            shown = "\n".join(str(op) for op in operations if op.name == wrong[0])
            raise self._failure(name, f"what clients were told of {', '.join(wrong)} cannot be:\n{shown}")
        if clients.errors:
            raise self._failure(name, clients.errors[0])
        self._contents, self._open = after, open_writes(operations, last)
        if wrong or self.rejected[1] >= 4 * SPOILED:
            return len(wrong)
        for spoil in (with_lost_write, with_stale_read, with_stale_session_read, with_swapped_reads):
            spoiled = spoil(operations, self._rng)
            if spoiled is not None:
                found = wrong_registers(spoiled, before) or sessions_that_went_back(spoiled)
                self.rejected = self.rejected[0] + bool(found), self.rejected[1] + 1
        return 0

    def _was_written_late(self) -> bool:
        """Return whether a write of an earlier round, of which nobody knew the outcome, has taken place in this one."""
        now = {name: _bytes(document) for name, document in self._state.jobs.items()}
        changed = {name for name in now.keys() | self._contents.keys() if now.get(name) != self._contents.get(name)}
        return any(op.name in changed and op.value == now.get(op.name) for op in self._open)

    def _why_ended(self) -> str:
        """Return what the logs of the replicas say of the end of the last term."""
        logs = {replica.name: self._lab.log_path(replica.name).read_text() for replica in self._replicas.all}
        found = [f"{name}: {line}" for name, log in logs.items() for line in log.splitlines() if _END.search(line)]
        return "; ".join(found[-2:]) or "their logs do not say why"

    def _failure(self, name: str, wrong: str) -> ClusterCheckError:
        return ClusterCheckError(f"seed {self._seed}, {name}: {wrong}")


class _Seen:
    """The lab and the leader as ``tests.campaigns.faults.check`` looks at them."""

    def __init__(self, lab: Lab, state: FaultState, leader: Replica) -> None:
        self.lab, self.state, self._leader = lab, state, leader

    def __enter__(self) -> _Seen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def get(self, target: str) -> Any:
        answer = self._leader.get(target)
        if answer.status != 200:
            raise Broken(f"GET {target}: {answer.status}: {answer.body}")
        return answer.body

    def check_alive(self) -> None:
        if not self._leader.runs:
            raise LabError(f"{self._leader.name} has ended")


def _jobs(leader: Replica) -> dict[str, Mapping[str, Any]]:
    """Return the jobs of a leader as documents of one flow each."""
    answer = leader.get("/v1/jobs")
    if answer.status != 200:
        raise Broken(f"GET /v1/jobs: {answer.status}")
    return {row["name"]: {"bytes": row["bytes"]} for row in answer.body["jobs"]}


def _bytes(document: Mapping[str, Any]) -> int:
    return int(document["bytes"])


def _first_write(operations: Sequence[JobOperation], begun: float) -> float | None:
    """Return after how many seconds the first change was acknowledged that was sent after a moment."""
    return min(
        (op.end - begun for op in operations if op.writes and op.begin >= begun and op.end < math.inf), default=None
    )


def _lost(tally: Tally) -> int:
    return sum(tally.lost.values())


def _said(row: FaultRound) -> str:
    parts = [
        "nobody writes" if row.accepted is None else f"accepts changes after {row.accepted:.2f} s",
        "the leader stays" if row.read_back is None else f"rules read back after {row.read_back:.2f} s",
        f"{row.operations} requests, {row.unknown} of unknown outcome",
    ]
    return "; ".join(parts) + (f"; {row.lost_packets} pings lost" if row.lost_packets else "")
