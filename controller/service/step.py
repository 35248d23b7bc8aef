"""One step of the controller, as a pure function: what is known and wanted now -> fabric, plan, rules.

It may take long (solving, compiling), so it runs off the event loop; it reads no clock but the one it is given, and
touches nothing but its arguments.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from controller.config import Settings
from controller.model.fabric import Fabric
from controller.model.observed import Observed
from controller.model.plan import Plan
from controller.model.traffic import Traffic
from controller.planning.drain import Drain
from controller.routing import Previous
from controller.service.draft import Draft, Memory, make_draft
from controller.service.enforcement import enforced_rules, rules_of_memory, wire_for
from controller.service.wanted import Admitted, Wanted
from controller.southbound.base import compile_listening
from controller.southbound.cabling import Survey, survey
from controller.southbound.rules import RuleSet
from controller.southbound.wire import Wire


@dataclass(frozen=True)
class Step:
    """What one step came to.

    Attributes:
        epoch: of the plan; grows by one whenever plan or rules are computed anew; the cookies carry it.
        draft: the plan for what is wanted; ``None`` while the fabric is not known.
        wire: what hosts are told to send, and over which paths; with a draft. In mode ``frozen``, what they were told.
        memory: the plan that the switches hold; in mode ``frozen`` that is not the newest one.
        rules: what every switch should hold; ``None``: whatever it does hold.
        enforced: epoch of these rules.
        names: switch names by datapath id, for people.
        unknown: connected switches whose role nobody knows yet (discovery alone): they only listen.
        ripe: the network is known well enough for rules. While switches have only begun to connect, most of it seems
            to be missing, and whatever they hold from before is better than rules for that.
        recalled: the fabric as it was before a restart, until it is known anew.
        seen: the fabric when it was ripe last.
        changes: (cable or host link, up) that came or went since.
    """

    epoch: int = 0
    survey: Survey = field(default_factory=lambda: Survey(None, ()))
    wanted: Wanted = field(default_factory=Wanted)
    draft: Draft | None = None
    wire: Wire | None = None
    memory: Memory | None = None
    rules: RuleSet | None = None
    enforced: int = -1
    names: Mapping[int, str] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()
    ripe: bool = False
    recalled: Fabric | None = None
    seen: Fabric | None = None
    changes: tuple[tuple[str, bool], ...] = ()

    @property
    def fabric(self) -> Fabric | None:
        return self.survey.fabric

    @property
    def jobs(self) -> tuple[Admitted, ...]:
        return self.wanted.jobs

    @property
    def plan(self) -> Plan | None:
        return None if self.draft is None else self.draft.plan

    @property
    def traffic(self) -> Traffic:
        return Traffic.empty() if self.draft is None else self.draft.traffic

    @property
    def drain(self) -> Drain:
        return Drain() if self.draft is None else self.draft.drain


def advance(
    settings: Settings,
    intended: Fabric | None,
    observed: Observed,
    wanted: Wanted,
    before: Step,
    clock: Callable[[], float],
    *,
    last_epoch: int = 0,
    take: Previous | None = None,
) -> Step:
    """The next step. Where neither the network nor what is wanted changed, the same plan and rules, same epoch.

    Args:
        intended: the fabric of the file; ``None``: discovery alone.
        before: the step before this one; what switches hold by its memory is what the new plan stays close to.
        clock: seconds, for the policy's own time.
        last_epoch: the largest epoch that was ever given, if that is not the one of ``before``.
        take: paths that flows are to have wherever they are live (a rollback).

    Raises:
        InputError: it cannot be enforced so: flows or labels are too many.
    """
    found = survey(
        intended,
        observed,
        before=before.fabric or before.recalled,
        host_gbps=settings.discovered_host_gbps,
        uplink_gbps=settings.discovered_uplink_gbps,
    )
    ripe = not observed.starting or (intended is not None and found.matches)
    next_epoch = max(before.epoch, last_epoch) + 1
    if found.fabric is None:
        return _listening(found, observed, wanted, before, ripe, next_epoch)
    unknown = frozenset(observed.switches - found.fabric.switch_by_dpid.keys()) if intended is None else frozenset()
    same_network = (
        before.fabric is not None
        and before.fabric.version == found.fabric.version
        and _learns(intended, found) == _learns(intended, before.survey)
        and unknown == before.unknown
    )
    same = same_network and take is None and wanted == before.wanted
    if same and before.ripe == ripe:
        return dataclasses.replace(before, survey=found, wanted=wanted, changes=())
    draft = make_draft(
        settings, intended, found.fabric, wanted, before.memory, clock, before=before.draft, take=take
    )  # fmt: skip
    epoch = before.epoch if same or _resumed(before, draft) else next_epoch
    memory = before.memory
    if wanted.mode != "frozen" and (ripe or memory is None or not memory.given):
        memory = _remembered(found.fabric, wanted, draft, epoch, ripe)
    step = Step(
        epoch=epoch,
        survey=found,
        wanted=wanted,
        draft=draft,
        wire=wire_for(found.fabric, wanted, draft, memory),
        memory=memory,
        rules=None,
        enforced=epoch,
        names={dpid: switch.name for dpid, switch in found.fabric.switch_by_dpid.items()},
        unknown=unknown,
        ripe=ripe,
        seen=found.fabric if ripe else before.seen,
        changes=tuple(link_changes(before.seen, found.fabric)) if ripe else (),
    )
    learn = _learns(intended, found)
    if wanted.mode == "frozen":
        return _frozen(settings, found.fabric, before, step, learn)
    assert step.wire is not None
    rules = enforced_rules(settings, found.fabric, wanted, draft, step.wire, unknown, learn)
    return dataclasses.replace(step, rules=rules)


def _resumed(before: Step, draft: Draft) -> bool:
    """Whether this is the first step after a restart and came to the plan that was there before it."""
    kept, wanted = before.memory, before.wanted
    if before.draft is not None or kept is None or kept.epoch != before.epoch or kept.basis != draft.basis:
        return False
    # In mode frozen it may be another one that is wanted only.
    return kept.enforcement == wanted.enforcement or wanted.mode == "frozen"


def _remembered(fabric: Fabric, wanted: Wanted, draft: Draft, epoch: int, given: bool) -> Memory:
    return Memory(
        epoch=epoch,
        basis=draft.basis,
        paths=draft.paths,
        bound=draft.plan.bound,
        links_down=links_down(fabric),
        drained=wanted.drained,
        enforced=wanted.mode == "planned",
        enforcement=wanted.enforcement,
        given=given,
    )


def links_down(fabric: Fabric) -> tuple[str, ...]:
    """Cables and host links that are down, by the names that ``Fabric.without_links`` takes."""
    return tuple(name for name, up in _links(fabric).items() if not up)


def link_changes(before: Fabric | None, now: Fabric) -> list[tuple[str, bool]]:
    """(name, up) of every cable and host link that has come, gone, or changed; what is new and up is no change."""
    if before is None or (before.link_ids == now.link_ids and np.array_equal(before.link_up, now.link_up)):
        return []
    old, new = _links(before), _links(now)
    gone = [(name, False) for name, up in old.items() if up and not new.get(name, False)]
    back = [(name, True) for name, up in new.items() if up and not old.get(name, True)]
    return gone + back


def _links(fabric: Fabric) -> dict[str, bool]:
    links = {name: cable.up for name, cable in zip(fabric.cable_names, fabric.cables, strict=True)}
    return links | {f"{host.name}-{host.leaf}": host.up for host in fabric.hosts}


def _frozen(settings: Settings, fabric: Fabric, before: Step, step: Step, learn: bool) -> Step:
    """The step with the rules that the switches hold; after a restart these are made again from what was kept."""
    if before.wanted.mode != "frozen":
        # From now on. What was not fit to be installed yet is not what they hold.
        held, enforced = before.rules if before.ripe else None, step.epoch
        memory = None if before.memory is None else dataclasses.replace(before.memory, epoch=step.epoch)
        step = dataclasses.replace(step, memory=memory)
    else:
        held, enforced = before.rules, before.enforced
    if held is None and step.ripe and step.memory is not None and step.memory.given:
        held = rules_of_memory(settings, fabric, step.memory, step.unknown, learn)
        enforced = step.memory.epoch
    return dataclasses.replace(step, rules=held, enforced=enforced)


def _learns(intended: Fabric | None, found: Survey) -> bool:
    """Whether leaves send unknown ARP here: where hosts can turn up that no rule knows."""
    return intended is None or bool(found.hosts_unplaced)


def _listening(
    found: Survey, observed: Observed, wanted: Wanted, before: Step, ripe: bool, next_epoch: int
) -> Step:  # fmt: skip
    """No host has been heard yet: no switch's role is known, so all of them only listen."""
    changed = observed.switches != before.unknown or wanted.mode != before.wanted.mode
    epoch = next_epoch if changed else before.epoch
    rules = None if wanted.mode == "frozen" else compile_listening(observed.switches)
    return Step(
        epoch=epoch, survey=found, wanted=wanted, memory=before.memory, rules=rules, enforced=epoch,
        unknown=observed.switches, ripe=ripe, recalled=before.recalled, seen=before.seen,
    )  # fmt: skip
