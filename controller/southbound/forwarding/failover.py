"""The fail-over groups of a switch: one uplink while it is live, then all those that are; no controller is asked.

A switch so moves at once what would leave by a dead cable. What comes down a dead cable waits for new rules.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.southbound.rules.rule import Action, Bucket, ToGroup, port_bucket
from controller.southbound.rules.rule_set import RuleBuilder


class Failover:
    """Makes the groups of one switch, each once.

    Args:
        over: what a packet gets before it leaves by a port.
    """

    def __init__(self, builder: RuleBuilder, over: Callable[[int], tuple[Action, ...]] = lambda port: ()) -> None:
        """Add groups to ``builder``; ``over`` gives further actions for a port."""
        self._builder, self._over = builder, over
        self._select: dict[tuple[int, ...], Bucket] = {}
        self._groups: dict[tuple[int, tuple[int, ...], tuple[Action, ...] | None], int] = {}

    def group(self, first: int, any_of: tuple[int, ...], planned: tuple[Action, ...] | None = None) -> int:
        """Return the id of the group that uses a port while it is live, else a live one of ``any_of`` by hash.

        ``any_of`` may have ``first`` in it, so that groups with different first ports share what they fall back on:
        the switch comes to it only when that port is dead. ``planned``: what a packet gets before it leaves by the
        first port, if it is not what ``over`` says.
        """
        group_id = self._groups.get((first, any_of, planned))
        if group_id is None:
            buckets = [self._bucket(first) if planned is None else port_bucket(first, planned)]
            if any(port != first for port in any_of):
                buckets.append(self._any(any_of))
            group_id = self._groups[first, any_of, planned] = self._builder.group("failover", buckets)
        return group_id

    def _any(self, ports: tuple[int, ...]) -> Bucket:
        if ports not in self._select:
            group = self._builder.group("select", map(self._bucket, ports))
            self._select[ports] = Bucket((ToGroup(group),), watch_group=group)
        return self._select[ports]

    def _bucket(self, port: int) -> Bucket:
        return port_bucket(port, self._over(port))
