"""The documents of a cluster: its replicas, and which of them leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.core.cluster_standing import ClusterStanding
from controller.core.ports.store import Membership
from controller.views.documents import VERSION
from controller.views.times import when

ALONE: Mapping[str, Any] = {
    "name": None,
    "role": "single",
    "term": 0,
    "leader": None,
    "since": None,
    "change": None,
    "replicas": [],
}
"""The document of a controller that is in no cluster."""


@dataclass(frozen=True)
class ReplicaCounts:
    """What the metrics say of a replica and its cluster.

    Attributes:
        role: ``leader`` or ``follower``.
        term: the present one.
        leader_changes: how often this replica has seen another leader than before.
        works, missing: replicas that the store has heard of lately, and those that it has not.
        lag: seconds since the store answered this replica; ``None``: it has not yet.
        take_over: seconds from the election of this replica until every switch had confirmed its rules; ``None``: it
            was not elected, or not all have yet.
    """

    role: str
    term: int
    leader_changes: int
    works: int
    missing: int
    lag: float | None
    take_over: float | None


def counts(member: Membership | None, clock: float, first_active: float | None) -> ReplicaCounts | None:
    """Return what the metrics say of a replica; ``None``: the controller is in no cluster.

    ``clock``: the time now, ``first_active``: when every switch had confirmed a plan for the first time, as in
    ``Runtime.clock``.
    """
    if member is None:
        return None
    works = sum(replica.is_live for replica in member.standing.members)
    return ReplicaCounts(
        "leader" if member.leads else "follower",
        member.standing.term,
        member.leader_changes,
        works,
        len(member.standing.members) - works,
        None if member.heard is None else clock - member.heard,
        None if member.elected is None or first_active is None else first_active - member.elected,
    )


def cluster(member: Membership | None) -> Mapping[str, Any]:
    """Return the cluster as this replica knows it; ``None``: the controller is in no cluster."""
    if member is None:
        return ALONE
    standing = member.standing
    return {
        "name": member.settings.name,
        "role": "leader" if member.leads else "follower",
        "term": standing.term,
        "leader": standing.leader_url or None,
        "since": when(standing.elected) if standing.elected else None,
        "change": None if standing.change is None else str(standing.change),
        "replicas": [
            {
                "url": replica.url,
                "version": replica.version,
                "live": replica.is_live,
                "leads": replica.id == standing.leader,
                "this": replica.id == member.settings.me.id,
                "heard": when(replica.heard),
                "switches": replica.switches,
            }
            for replica in standing.members
        ],
    }


def follower_health(without_plan: Mapping[str, Any], standing: ClusterStanding, error: str) -> dict[str, Any]:
    """Return the health of a replica that does not lead, from that of a controller that has not started to plan."""
    reasons = list(_of_follower(standing, error))
    own = {"status": "degraded" if reasons else "ok", "reasons": reasons, "version": VERSION}
    # The leader says what of the network slows jobs down.
    unknown = {"job": None, "speed": None, "unknown": "the leader knows it"}
    return {**without_plan, **own, "degraded_service": [], "slowest_job": unknown}


def _of_follower(standing: ClusterStanding, error: str) -> Iterator[str]:
    if error:
        yield f"this replica cannot take over, because the store does not answer: {error}"
    elif not standing.leader:
        yield "no replica leads the cluster"
