"""Changes to try the store with, and a plain model of what it should keep."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from controller.core.desired_state import UNPLACED, AdmittedJob
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import LearningSetting, ModeSetting, SavedState, StateChange
from controller.model.packets.port_numbers import MAX_PORT
from controller.routing import PreviousPlan
from tests.unit.southbound.plans import KEEPING

NAMES = st.sampled_from(["a", "b", "gpt3-a", "ünïcode job", "x" * 200])
TIMES = st.floats(0, 1e11, allow_nan=False)
NUMBERS = st.floats(allow_nan=False)
COUNTS = st.integers(0, 2**63 - 1)
# PostgreSQL's texts hold no NUL, and no encoding holds half a surrogate pair.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
LISTS = st.lists(TEXTS, max_size=3).map(tuple)
PORTS = hnp.arrays(np.int32, st.integers(0, 20), elements=st.integers(0, MAX_PORT))


@st.composite
def paths(draw: st.DrawFn) -> PreviousPlan:
    """Any paths, in any order."""
    rows = draw(st.integers(0, 20))
    return PreviousPlan(
        draw(LISTS),
        draw(LISTS),
        draw(hnp.arrays(np.int64, rows)),
        draw(hnp.arrays(np.int32, rows)),
        draw(hnp.arrays(np.float64, rows)),
    )


jobs = st.builds(
    AdmittedJob,
    name=NAMES,
    document=st.binary(max_size=50),
    revision=TEXTS,
    position=st.integers(0, 9),
    changed=TIMES,
    by=TEXTS,
    ports=PORTS,
    traffic=st.none(),
    left_out=st.just(UNPLACED),
)
modes = st.builds(
    ModeSetting, st.sampled_from(["planned", "ecmp", "frozen"]), TIMES, TEXTS, st.none() | TEXTS, st.none() | TEXTS
)


settings_of_learning = st.builds(
    LearningSetting, st.sampled_from(["off", "observe", "act"]), TIMES, TEXTS, st.sampled_from(["off", "observe"])
)


def plans(epoch: int) -> st.SearchStrategy[PlanRecord]:
    """Any record of one epoch."""
    maybe = st.none() | NUMBERS
    return st.builds(
        PlanRecord,
        st.just(epoch),
        TIMES,
        TEXTS,
        st.none() | TEXTS,
        TEXTS,
        COUNTS,
        TEXTS,
        TEXTS,
        TEXTS,
        LISTS,
        LISTS,
        LISTS,
        NUMBERS,
        NUMBERS,
        maybe,
        maybe,
        maybe,
        NUMBERS,
        COUNTS,
        COUNTS,
        COUNTS,
        st.none() | COUNTS,
        st.none() | paths(),
        st.sampled_from(KEEPING),
    )


@st.composite
def changes(draw: st.DrawFn) -> StateChange:
    """Any change; epochs are few, so that some come twice and not in order."""
    epochs = draw(st.lists(st.integers(1, 12), max_size=3, unique=True))
    return StateChange(
        put=tuple(draw(st.lists(jobs, max_size=3, unique_by=lambda job: job.name))),
        deleted=tuple(draw(st.lists(NAMES, max_size=2))),
        drained=draw(st.none() | st.frozensets(NAMES, max_size=3)),
        mode=draw(st.none() | modes),
        learning=draw(st.none() | settings_of_learning),
        plans=tuple(draw(plans(epoch)) for epoch in epochs),
    )


@dataclass
class Model:
    """What a store should keep, as plain dictionaries."""

    plans_kept: int
    jobs: dict[str, AdmittedJob] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    mode: ModeSetting | None = None
    learning: LearningSetting | None = None
    plans: dict[int, PlanRecord] = field(default_factory=dict)

    def commit(self, change: StateChange) -> None:
        for name in change.deleted:
            self.jobs.pop(name, None)
        self.jobs |= {job.name: job for job in change.put}
        self.drained = self.drained if change.drained is None else change.drained
        self.mode = change.mode or self.mode
        self.learning = change.learning or self.learning
        self.plans |= {plan.epoch: plan for plan in change.plans}
        newest = sorted(self.plans, reverse=True)[: self.plans_kept]
        self.plans = {epoch: self.plans[epoch] for epoch in newest}

    def load(self) -> SavedState:
        in_order = sorted(self.jobs.values(), key=lambda job: (job.position, job.name.encode()))
        newest = self.plans[max(self.plans)] if self.plans else None
        return SavedState(tuple(in_order), self.drained, self.mode, self.learning, newest)

    def listed(self) -> list[Any]:
        """``Store.plans``, comparable."""
        return [plain(replace(self.plans[epoch], paths=None)) for epoch in sorted(self.plans, reverse=True)]


def plain(value: Any) -> Any:
    """Any kept value as something that ``==`` compares, NaN and -0.0 included."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    return value
