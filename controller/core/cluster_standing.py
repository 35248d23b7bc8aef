"""The values of a cluster of controllers that cross the borders of the program (docs/explanation/cluster.md)."""

from __future__ import annotations

from dataclasses import dataclass

from controller.core.change_number import ChangeNumber


@dataclass(frozen=True)
class ReplicaEntry:
    """A replica of a cluster, as the others know it.

    Attributes:
        id: drawn at each start.
        url: of its HTTP interface.
        version: of its program.
        heard: when the store heard of it last, in seconds since 1970 by the store's clock: for people.
        is_live: whether the store has heard of it lately.
        switches: how many were connected to it then.
    """

    id: str
    url: str
    version: str
    heard: float = 0.0
    is_live: bool = True
    switches: int = 0


@dataclass(frozen=True)
class ClusterStanding:
    """What the store says of the cluster.

    Attributes:
        term: the present one; it only grows, and no two leaders have the same. 0: there has been no leader.
        leader: the id of the replica that was elected for it; empty: none was.
        leads: whether that is this replica.
        elected: when that was, in seconds since 1970 by the store's clock: for people.
        members: the replicas that the store knows, by URL.
        change: the number of the store's last change; ``None``: it has none yet.
    """

    term: int = 0
    leader: str = ""
    leads: bool = False
    elected: float = 0.0
    members: tuple[ReplicaEntry, ...] = ()
    change: ChangeNumber | None = None

    @property
    def leader_url(self) -> str:
        """The URL of the leader's HTTP interface; empty: there is none, or it is not known."""
        return next((member.url for member in self.members if member.id == self.leader), "")


@dataclass(frozen=True)
class ClusterSettings:
    """The cluster as it is configured.

    Attributes:
        name: of the cluster.
        lease: seconds without a beat after which a leader is replaced.
        me: this replica.
    """

    name: str
    lease: float
    me: ReplicaEntry
