"""Documents of plans for agents, made for many hosts at once.

A new plan wakes thousands of agents. Handing each of them to a thread and waiting for it takes longer than making its
document, since the thread and the event loop wait for each other's turn. So one task makes the documents of all who
wait.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from controller.core.ports.host_agents import AgentHas
from controller.core.ports.runtime import Runtime, Signal
from controller.southbound.enforcement.host_plans import HostPlans

MOST_AT_ONCE = 64
"""Documents that are made in one step: what is made has to be sent before it is forgotten."""


class HostDocument(NamedTuple):
    """The plan of a host as a document, and a hash of what it says."""

    digest: str
    body: bytes


@dataclass(eq=False)
class _Wanted:
    """A document that a task waits for. ``ready``: set when it was tried to make it."""

    plans: HostPlans
    epoch: int
    host: str
    has: AgentHas
    ready: Signal
    made: list[HostDocument | Exception] = field(default_factory=list)


class HostDocuments:
    """Makes documents for tasks that wait for them. A task of its own does so while any are wanted."""

    def __init__(self, runtime: Runtime, *, most_at_once: int = MOST_AT_ONCE) -> None:
        """Begin with nothing to make."""
        self._runtime, self._most = runtime, most_at_once
        self._queue: deque[_Wanted] = deque()
        self._is_making = False

    def document(self, plans: HostPlans, epoch: int, host: str, has: AgentHas) -> HostDocument:
        """Return the plan of a host; block the calling task meanwhile.

        Args:
            plans: of all hosts.
            epoch: of the plan.
            host: its name.
            has: what its agent has already.
        """
        (made,) = self.documents(plans, epoch, [(host, has)])
        if isinstance(made, Exception):
            raise made
        return made

    def documents(
        self, plans: HostPlans, epoch: int, asked: Iterable[tuple[str, AgentHas]]
    ) -> list[HostDocument | Exception]:
        """Return the plans of several hosts, as ``document`` does; an error takes the place of its own one only."""
        all_wanted = [_Wanted(plans, epoch, host, has, self._runtime.signal()) for host, has in asked]
        self._queue += all_wanted
        if all_wanted and not self._is_making:
            self._is_making = True
            self._runtime.spawn(self._make_all)
        for wanted in all_wanted:
            wanted.ready.wait()
        return [wanted.made[0] for wanted in all_wanted]

    def _make_all(self) -> None:
        """Make documents until none is wanted."""
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(self._most, len(self._queue)))]
            for each, made in zip(batch, self._runtime.offload(_documents, batch), strict=True):
                each.made.append(made)
                each.ready.set()
        self._is_making = False


def _documents(batch: Sequence[_Wanted]) -> list[HostDocument | Exception]:
    return [_tried(each) for each in batch]


def _tried(wanted: _Wanted) -> HostDocument | Exception:
    try:
        return _document(wanted)
    except Exception as error:
        # It is that of one task; the others get their documents.
        return error


def _document(wanted: _Wanted) -> HostDocument:
    """Return the hash of what a plan says to a host, and the document with it."""
    plans, host, has = wanted.plans, wanted.host, wanted.has
    fabric = plans.fabric
    assert fabric is not None
    said = plans.content(fabric.host_index[host], has.destinations, by_table=has.by_table)
    content: dict[str, Any] = {"host": host, "mode": plans.mode, **said}
    # Of destinations, their own hash stands in it, in whatever form the agent wants them.
    digest = hashlib.sha256(orjson.dumps({**content, **_ANY_FORM})).hexdigest()[:16]
    return HostDocument(digest, orjson.dumps({"epoch": wanted.epoch, "digest": digest, **content}))


_ANY_FORM = dict.fromkeys(("destinations", "number", "table_digest", "paths"))
