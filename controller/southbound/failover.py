"""The fail-over group of a leaf: one uplink while it is live, then the others; no controller is asked.

A leaf so moves at once what would leave by a dead cable. What comes down a dead cable waits for new rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.southbound.rules import Bucket, Builder, ToGroup


def failover(builder: Builder, first: Bucket, others: Sequence[Bucket]) -> int:
    """The id of the group that takes ``first`` while its port is live, else one of the others that are, by a hash."""
    buckets = [first]
    if len(others) == 1:
        buckets.append(others[0])
    elif others:
        select = builder.group("select", others)
        buckets.append(Bucket((ToGroup(select),), watch_group=select))
    return builder.group("failover", buckets)
