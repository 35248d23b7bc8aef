"""Documents of plans for agents, made for many hosts at once.

A new plan wakes thousands of agents. Handing each of them to a thread and waiting for it takes longer than making its
document, since the thread and the event loop wait for each other's turn. So one task makes the documents of all who
wait.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from controller.core.ports.host_agents import AgentHas
from controller.core.ports.runtime import Runtime, Signal
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS, HostPlans

MOST_AT_ONCE = 64
"""Documents that are made in one step: what is made has to be sent before it is forgotten."""


FEWEST_TOLD_AS_CHANGES = 16
"""Flows of a host: with fewer, the changes of a plan take about as many bytes as the plan, and longer to find."""


class HostDocument(NamedTuple):
    """The plan of a host as a document, and a hash of what it says."""

    digest: str
    body: bytes


class KnownPlans(NamedTuple):
    """The plans of hosts before the newest ones, and hashes of what they say, by host, as far as these are known."""

    plans: HostPlans
    digests: Mapping[str, str]


NONE_KNOWN = KnownPlans(NO_HOST_PLANS, {})


@dataclass(eq=False)
class _Wanted:
    """A document that a task waits for. ``ready``: set when it was tried to make it."""

    plans: HostPlans
    epoch: int
    host: str
    has: AgentHas
    before: KnownPlans
    ready: Signal
    made: list[HostDocument | Exception] = field(default_factory=list)


class HostDocuments:
    """Makes documents for tasks that wait for them. A task of its own does so while any are wanted."""

    def __init__(self, runtime: Runtime, *, most_at_once: int = MOST_AT_ONCE) -> None:
        """Begin with nothing to make."""
        self._runtime, self._most = runtime, most_at_once
        self._queue: deque[_Wanted] = deque()
        self._is_making = False

    def document(
        self, plans: HostPlans, epoch: int, host: str, has: AgentHas, before: KnownPlans = NONE_KNOWN
    ) -> HostDocument:
        """Return the plan of a host; block the calling task meanwhile.

        Args:
            plans: of all hosts.
            epoch: of the plan.
            host: its name.
            has: what its agent has already.
            before: plans of which changes can be told.
        """
        (made,) = self.documents(plans, epoch, [(host, has)], before)
        if isinstance(made, Exception):
            raise made
        return made

    def documents(
        self, plans: HostPlans, epoch: int, asked: Iterable[tuple[str, AgentHas]], before: KnownPlans = NONE_KNOWN
    ) -> list[HostDocument | Exception]:
        """Return the plans of several hosts, as ``document`` does; an error takes the place of its own one only."""
        all_wanted = [_Wanted(plans, epoch, host, has, before, self._runtime.signal()) for host, has in asked]
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
    """Return the hash of what a plan says to a host, and the document with it, or with the changes of another plan."""
    plans, host, has = wanted.plans, wanted.host, wanted.has
    fabric = plans.fabric
    assert fabric is not None
    said = plans.content(fabric.host_index[host], has.destinations, by_table=has.by_table)
    content: dict[str, Any] = {"host": host, "mode": plans.mode, **said}
    # Of destinations, their own hash stands in it, in whatever form the agent wants them.
    digest = hashlib.sha256(orjson.dumps({**content, **_ANY_FORM})).hexdigest()[:16]
    if has.changes and has.plan is not None and has.plan.digest == digest:
        # Its agent holds what the plan says.
        return HostDocument(digest, b"")
    return HostDocument(
        digest, orjson.dumps({"epoch": wanted.epoch, "digest": digest, **content, **_changes(wanted, said)})
    )


def _changes(wanted: _Wanted, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flows that are others than in the plan that an agent has, if this is known; else nothing."""
    has, host, (plans, digests) = wanted.has, wanted.host, wanted.before
    if not has.changes or has.plan is None or not has.plan.digest or digests.get(host) != has.plan.digest:
        return {}
    if len(said["flows"]) < FEWEST_TOLD_AS_CHANGES:
        return {}
    assert plans.fabric is not None
    earlier = plans.content(plans.fabric.host_index[host], has.destinations, by_table=has.by_table)["flows"]
    before = {_address(flow): flow for flow in earlier}
    flows = [flow for flow in said["flows"] if before.pop(_address(flow), None) != flow]
    if len(flows) + len(before) >= len(said["flows"]):
        return {}
    gone = [dict(zip(_ADDRESS, address, strict=True)) for address in before]
    return {"flows": flows, "changes_of": has.plan.digest, "gone": gone}


_ADDRESS = ("src", "dst", "protocol", "src_port", "dst_port")
_address = itemgetter(*_ADDRESS)

_ANY_FORM = dict.fromkeys(("destinations", "number", "table_digest", "paths"))


def known_plans(plans: HostPlans, before: HostPlans, digests: Mapping[str, str]) -> tuple[KnownPlans, dict[str, str]]:
    """Return what is known of the plans before the newest ones, and the hashes of those of the newest that are known.

    Args:
        plans: the newest ones.
        before: those before.
        digests: hashes of what these say, by host.
    """
    if (
        plans.fabric is None
        or before.fabric is None
        or (plans.mode, plans.form, plans.checks)
        != (
            before.mode,
            before.form,
            before.checks,
        )
    ):
        return NONE_KNOWN, {}
    unchanged, index = plans.content.unchanged(before.content), plans.fabric.host_index
    same = {host: digest for host, digest in digests.items() if host in index and unchanged(index[host])}
    return KnownPlans(before, digests), same
