"""The side of routers: what their BGP sessions and the agents of hosts show of cables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Set
from ipaddress import IPv6Network

from controller.core.ports.runtime import Runtime
from controller.model.fabric import Fabric
from controller.southbound.bgp.cable_verdicts import CableVerdicts
from controller.southbound.bgp.route_listener import MakeSpeaker, Speaker
from controller.southbound.bgp.router_reach import RouterReach
from controller.southbound.bgp.sessions_file import BgpSessions
from controller.southbound.srv6.carrier_cables import replaceable_cables
from controller.southbound.srv6.segment_ids import SegmentIds

LOG = logging.getLogger("fairspine.bgp")

LOOK_SECONDS = 1.0
"""Between two looks at what has become certain with time."""

MISSING_SECONDS = 15.0
"""Time without a session to a router after which this is told."""

MOST_NOTICES = 5
"""Notices of one kind that are told one by one."""


class RouterSouthbound:
    """A ``controller.core.ports.cable_witnesses.CableWitnesses``, and a ``RouteListener`` of the BGP speaker.

    Attributes:
        verdicts: on cables; reports of agents go there.
    """

    def __init__(
        self,
        ids: SegmentIds,
        sessions: BgpSessions | None,
        runtime: Runtime,
        make_speaker: MakeSpeaker,
        *,
        changed: Callable[[bool], None],
        noticed: Callable[[], None],
    ) -> None:
        """Make the parts.

        Args:
            ids: the ids of the fabric file.
            sessions: those to routers; ``None``: there are none.
            runtime: tasks, waiting and time.
            make_speaker: makes the speaker that opens the sessions.
            changed: called when ``cables`` has changed, with whether one more is down.
            noticed: called when ``notices`` has changed.
        """
        fabric: Fabric = ids.fabric
        self._runtime, self._noticed, self._wake = runtime, noticed, runtime.signal()
        self._reach: RouterReach | None = None
        self._speaker: Speaker | None = None
        # Since when each router has no session, and the last reason.
        self._missing: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        self._notices: list[str] = []
        if sessions is not None:
            self._addresses = {session.router: str(session.address) for session in sessions.sessions}
            self._reach = RouterReach(ids, sessions.asns(fabric))
            self._speaker = make_speaker(sessions, self)
        self.verdicts = CableVerdicts(
            fabric.cable_names,
            self._reach,
            replaceable=replaceable_cables(fabric),
            changed=changed,
            noticed=noticed,
        )

    def start(self) -> None:
        """Open the sessions."""
        if self._speaker is not None:
            self._missing = dict.fromkeys(self._addresses, self._runtime.clock())
            self._runtime.spawn(self._look)
            self._speaker.start()

    def close(self) -> None:
        """End the sessions."""
        if self._speaker is not None:
            self._speaker.close()

    @property
    def cables(self) -> Mapping[int, str]:
        """Why a cable is down, or an empty text if it works; nothing of cables of which too little is known."""
        return self.verdicts.cables

    @property
    def passed_cables(self) -> Set[int]:
        """Cables that are unknown, and to whose probes nothing happens: packets pass over them, or beside them."""
        return self.verdicts.passed_cables

    def notices(self) -> list[str]:
        """Return what is wrong with sessions, and who disagrees on cables, for people."""
        return [*self._notices, *self.verdicts.conflicts]

    # -- what the speaker tells ----------------------------------------------------------------------------------

    def began(self, router: str) -> None:
        """Begin with the session of a router."""
        LOG.info("BGP session with %s (%s)", router, self._addresses[router])
        self._missing.pop(router, None)
        self._reasons.pop(router, None)
        self._reached().began(router, self._runtime.clock())
        self._wake.set()

    def ended(self, router: str) -> None:
        """End with it."""
        LOG.warning("BGP session with %s (%s) has ended", router, self._addresses[router])
        now = self._runtime.clock()
        self._missing[router] = now
        self._reached().ended(router, now)
        self._wake.set()

    def failed(self, router: str, reason: str) -> None:
        """Keep why there is no session."""
        if self._reasons.get(router) != reason:
            LOG.warning("BGP session with %s (%s): %s", router, self._addresses[router], reason)
        self._reasons[router] = reason

    def takes(self, router: str, prefix: IPv6Network, path: tuple[int, ...]) -> None:
        """Take a path of a router to a prefix."""
        self._reached().takes(router, prefix, path, self._runtime.clock())
        self._wake.set()

    def _reached(self) -> RouterReach:
        assert self._reach is not None
        return self._reach

    # -- time ----------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        while True:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            now = self._runtime.clock()
            self.verdicts.judge(now)
            notices = [*_some(self._lacking(now), "no BGP session to"), *_some(self._reached().foreign, "such paths:")]
            if notices != self._notices:
                self._notices = notices
                self._noticed()

    def _lacking(self, now: float) -> list[str]:
        """Return which sessions have been missing for some time."""
        texts = []
        for router, since in sorted(self._missing.items()):
            if now - since >= MISSING_SECONDS:
                reason = f": {self._reasons[router]}" if router in self._reasons else ""
                texts.append(f"no BGP session to {router} ({self._addresses[router]}){reason}")
        return texts


def _some(texts: list[str], what: str) -> list[str]:
    more = len(texts) - MOST_NOTICES
    return texts if more <= 0 else [*texts[:MOST_NOTICES], f"{what} {more} more"]
