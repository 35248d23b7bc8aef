"""What panels should hold by the document of a plan, after each of its stages, and how they are brought there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from controller.circuits.fabric.optical_fabric import Circuit
from controller.circuits.southbound.panel import WAIT_SECONDS, Panel, PanelChange
from controller.model.errors import InputError
from controller.model.files.fabric_file import from_validation_error
from controller.model.files.fabric_forms import Name, Port

_TRIES = 3
"""How often circuits are set that are not there when they are read back."""


class _Form(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Row(_Form):
    switch: Name
    in_port: Port
    out_port: Port


class _Shard(_Form):
    circuits: list[_Row]


class _Changes(_Form):
    removed: list[_Row]
    added: list[_Row]


class _Plan(_Form):
    shards: list[_Shard]
    changes: _Changes
    stages: list[_Changes] | None = None


@dataclass(frozen=True)
class PanelStep:
    """What panels should hold before and after a change.

    Attributes:
        wanted: all circuits of jobs.
        gone: circuits that are taken away by then.
        before: all circuits of jobs before the change; ``None``: any.
    """

    wanted: frozenset[Circuit]
    gone: frozenset[Circuit]
    before: frozenset[Circuit] | None

    @property
    def switches(self) -> tuple[str, ...]:
        """The names of the panels."""
        return tuple(sorted({each.switch for each in self.wanted | self.gone}))


def parse_step(document: Any, stage: int | None, *, source: str = "") -> PanelStep:
    """Return the change of a whole plan (``fairspine topology --out``), or of one of its stages, counted from 1.

    Raises:
        InputError: this is no such document, or it has no such stage.
    """
    try:
        plan = _Plan.model_validate(document)
    except ValidationError as error:
        raise from_validation_error(error, document).with_source(source) from None
    final = _circuits([row for shard in plan.shards for row in shard.circuits])
    if stage is None:
        return PanelStep(final, _circuits(plan.changes.removed), None)
    if plan.stages is None:
        raise InputError("the plan has no stages: plan it with --stages", source=source, field="stages")
    if not 1 <= stage <= len(plan.stages):
        raise InputError(f"the plan has {len(plan.stages)} stages", source=source, field="--stage", value=stage)
    later = plan.stages[stage:]
    wanted = final - _all(each.added for each in later) | _all(each.removed for each in later)
    now = plan.stages[stage - 1]
    gone = _all(each.removed for each in plan.stages[:stage])
    return PanelStep(wanted, gone, wanted - _circuits(now.added) | _circuits(now.removed))


def _circuits(rows: Sequence[_Row]) -> frozenset[Circuit]:
    return frozenset(Circuit(row.switch, row.in_port, row.out_port) for row in rows)


def _all(parts: Any) -> frozenset[Circuit]:
    return frozenset().union(*(_circuits(part) for part in parts))


@dataclass(frozen=True)
class PanelResult:
    """What was done on a panel.

    Attributes:
        change: the circuits that were taken away and set.
        right: the number of circuits that carry packets.
        faults: what is wrong with others.
    """

    change: PanelChange
    right: int
    faults: Mapping[Circuit, str]


def carry_out(panel: Panel, step: PanelStep, wait_seconds: float = WAIT_SECONDS) -> PanelResult:
    """Set the circuits of a panel, read them back, set again those that are not there, and verify each one.

    Raises:
        InputError: the panel does not answer or refuses them, or holds others than the stage begins with.
    """
    wanted = frozenset(each for each in step.wanted if each.switch == panel.name)
    gone = frozenset(each for each in step.gone if each.switch == panel.name)
    held = frozenset(panel.circuits())
    if step.before is not None:
        _check_before(panel, held, wanted, frozenset(each for each in step.before if each.switch == panel.name))
    change = panel.set(wanted, gone)
    for _ in range(_TRIES):
        faults = panel.faults(wanted, wait_seconds)
        if not wanted - frozenset(panel.circuits()):
            break
        panel.set(wanted, gone)
    return PanelResult(change, len(wanted) - len(faults), faults)


def look_at(panel: Panel, step: PanelStep, wait_seconds: float = WAIT_SECONDS) -> PanelResult:
    """Return how a panel differs from what it should hold; nothing is changed.

    Raises:
        InputError: the panel does not answer.
    """
    wanted = frozenset(each for each in step.wanted if each.switch == panel.name)
    left = frozenset(panel.circuits()) & step.gone
    faults = dict(panel.faults(wanted, wait_seconds)) | dict.fromkeys(left - wanted, "should be taken away")
    return PanelResult(PanelChange((), ()), len(wanted - faults.keys()), faults)


def _check_before(
    panel: Panel, held: frozenset[Circuit], wanted: frozenset[Circuit], before: frozenset[Circuit]
) -> None:
    """Refuse a stage that begins with other circuits: servers would lose each other.

    Raises:
        InputError: a circuit is missing that should be there before and after the stage.
    """
    missing = sorted((before & wanted) - held)
    if missing:
        each = missing[0]
        raise InputError(
            f"{panel.name}: does not hold the circuit from port {each.in_port} to port {each.out_port}, by which "
            "servers send during this stage",
            source=panel.target,
        )
