"""Which changes the answers of a replica contain."""

from __future__ import annotations

from controller.core.change_number import ChangeNumber
from controller.core.ports.runtime import Runtime
from controller.core.ports.store import Membership
from controller.service.cluster.follower import Follower
from controller.service.reconciling.reconciler import Reconciler

LOOK_SECONDS = 0.02
"""Between two looks whether a leader has published a change that is saved already."""


class ReplicaReads:
    """The changes that a single controller, a leader or a follower knows."""

    def __init__(
        self, runtime: Runtime, reconciler: Reconciler, member: Membership | None, follower: Follower | None
    ) -> None:
        """Keep the parts; a single controller is no member, and has no follower."""
        self._runtime, self._reconciler = runtime, reconciler
        self._member, self._follower = member, follower

    @property
    def follows(self) -> bool:
        """Whether answers are those of a follower, which does not know what switches hold."""
        return self._member is not None and not self._member.leads

    @property
    def change(self) -> ChangeNumber | None:
        """The number of the last change that answers contain, with all before; ``None``: changes have no numbers.

        A leader that has just ended still answers changes that it has saved: they have its numbers, since what it knew
        as a follower is older.
        """
        if self._member is None or self._member.has_led or self._follower is None:
            return self._reconciler.published
        return self._follower.change

    def knows(self, change: ChangeNumber) -> bool:
        """Return whether answers contain a change, now or within a lease."""
        if self._member is None or self._follower is None:
            return True
        seconds = self._member.settings.lease
        if not self._member.leads:
            return self._follower.knows(change, seconds)
        deadline = self._runtime.clock() + seconds
        while (known := self._reconciler.published) is None or known < change:
            if self._runtime.clock() >= deadline:
                return False
            self._runtime.sleep(LOOK_SECONDS)
        return True
