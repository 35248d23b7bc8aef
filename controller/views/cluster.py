"""The documents of a cluster: its replicas, and which of them leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from controller.core.cluster_standing import ClusterStanding, ReplicaEntry
from controller.views.documents import VERSION
from controller.views.times import when

ALONE: Mapping[str, Any] = {"name": None, "role": "single", "term": 0, "leader": None, "since": None, "replicas": []}
"""The document of a controller that is in no cluster."""


def cluster(name: str, standing: ClusterStanding, me: ReplicaEntry, *, leads: bool) -> dict[str, Any]:
    """Return the cluster as this replica knows it."""
    return {
        "name": name,
        "role": "leader" if leads else "follower",
        "term": standing.term,
        "leader": standing.leader_url or None,
        "since": when(standing.elected) if standing.elected else None,
        "replicas": [
            {
                "url": member.url,
                "version": member.version,
                "live": member.is_live,
                "leads": member.id == standing.leader,
                "this": member.id == me.id,
                "heard": when(member.heard),
            }
            for member in standing.members
        ],
    }


def follower_health(told: Mapping[str, Any], standing: ClusterStanding, error: str) -> dict[str, Any]:
    """Return the health of a replica that does not lead, from that of a controller that has not started to plan."""
    reasons = list(_of_follower(standing, error))
    return {**told, "status": "degraded" if reasons else "ok", "reasons": reasons, "version": VERSION}


def _of_follower(standing: ClusterStanding, error: str) -> Iterator[str]:
    if error:
        yield f"this replica cannot take over, because the store does not answer: {error}"
    elif not standing.leader:
        yield "no replica leads the cluster"
