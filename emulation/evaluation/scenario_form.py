"""The form of a scenario file; docs/reference/simulator.md has it in words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from controller.model.choices.qp_mode import MOST_QPS, QpMode
from controller.model.job import Algorithm, Op
from controller.model.queue_pairs import QueuePairs
from controller.model.texts.byte_sizes import byte_count
from controller.model.texts.text_form import text_form
from emulation.evaluation.generator import SHAPES, Placement
from emulation.fluid.movers import Allocation
from emulation.fluid.replanning import PlannedFlows
from emulation.fluid.simulator import Trigger

Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Number = Annotated[int, Field(ge=0, le=2**31)]
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Title = Annotated[
    str, Field(min_length=1, max_length=80), text_form(r"^[A-Za-z0-9._+,: -]+$", "letters, digits, spaces and ._+,:-")
]
PolicyName = Annotated[
    str, Field(min_length=1, max_length=40), text_form(r"^[A-Za-z0-9._+-]+$", "letters, digits and ._+-")
]


def _listed(value: Any) -> Any:
    """One value is short for a list of it."""
    return value if isinstance(value, list) else [value]


def _policy(value: Any) -> Any:
    return {"policy": value} if isinstance(value, str) else value


Triggers = Annotated[list[Trigger], Field(min_length=1)]
Counts = Annotated[list[Count], BeforeValidator(_listed), Field(min_length=1)]
Numbers = Annotated[list[Number], BeforeValidator(_listed), Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GraphForm(_Strict):
    """Files of another tool that contain a task graph.

    ``placement``: hosts by rank, or the method that places the ranks on hosts without an earlier job of the case.
    """

    format: Annotated[str, Field(min_length=1, max_length=40)]
    files: Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
    name: str | None = None
    placement: Literal["in-order", "packed", "scattered", "random"] | list[str] = "in-order"
    seed: Number = 0


class JobRow(_Strict):
    """A job file, a job document, or a task graph, and its times.

    ``compute_seconds`` defaults to that of the job, ``epochs`` to that of the scenario.
    """

    job: str | dict[str, Any] | None = None
    graph: GraphForm | None = None
    compute_seconds: Seconds | None = None
    epochs: Count | None = None
    start: Seconds = 0.0
    pieces: Annotated[int, Field(ge=1, le=1024)] = 1

    @model_validator(mode="after")
    def _one(self) -> JobRow:
        if (self.job is None) == (self.graph is None):
            raise ValueError("must have exactly one of 'job' and 'graph'")
        if self.graph is not None and self.pieces > 1:
            raise ValueError("'pieces' cannot be used with a graph, which contains the dependencies")
        return self


class FilesForm(_Strict):
    """Traffic files of dcn-simulators; combinations that the folder does not have are left out."""

    folder: str
    jobs: Counts = [1, 3, 5]
    rings: Counts = [2, 4, 8]
    optional: bool = False


class GeneratedForm(_Strict):
    """Jobs from a seed: a case for each combination of ``jobs``, ``rings`` and ``seeds``."""

    jobs: Counts
    rings: Counts
    seeds: Numbers = [0]
    models: Annotated[list[str], Field(min_length=1)] = list(SHAPES)
    placement: Placement = "leaves"
    unequal: bool = False
    all_to_all_bytes: Annotated[int, Field(ge=0, le=2**53), BeforeValidator(byte_count)] = 0
    come_and_go_seconds: Seconds = 0.0


class ScenarioCollectiveForm(_Strict):
    """One collective over groups of all hosts: a case for each combination of ``algorithms`` and ``bytes``.

    Where ``op`` is ``send_recv``, each rank sends to the next one of its group: a permutation. ``order``: the order in
    which ranks are on hosts. ``pods_in_turn``: each rank is in the next pod after the rank before, on a host that
    ``seed`` draws; a case for each of several seeds. ``each_a_job``: each group is a job.
    """

    op: Op = "all_reduce"
    algorithms: Annotated[list[Algorithm], BeforeValidator(_listed), Field(min_length=1)]
    bytes: Annotated[
        list[Annotated[int, Field(ge=1, le=2**53), BeforeValidator(byte_count)]],
        BeforeValidator(_listed),
        Field(min_length=1),
    ]
    groups: Count = 1
    each_a_job: bool = False
    order: Literal["in_order", "random", "pods_in_turn"] = "in_order"
    seed: Numbers = [0]
    pieces: Annotated[int, Field(ge=1, le=1024)] = 1


class CaseForm(_Strict):
    """Source of jobs: exactly one of the four. ``name`` is the prefix of the names of its cases.

    There is a case of each for each number of ``qps``: the QPs of connections of jobs that do not say. ``scale``: the
    part of all bytes, computing times and starts that is simulated, for engines to which all of them would be too much.
    ``at_once``: jobs do not compute, and all begin at second 0.
    """

    name: Title | None = None
    jobs: Annotated[list[JobRow], Field(min_length=1)] | None = None
    files: FilesForm | None = None
    generated: GeneratedForm | None = None
    collective: ScenarioCollectiveForm | None = None
    qps: Annotated[list[Annotated[int, Field(ge=1, le=MOST_QPS)]], BeforeValidator(_listed), Field(min_length=1)] = [1]
    qp_mode: QpMode = "split"
    scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    at_once: bool = False

    @property
    def kind(self) -> str:
        """The name, or else where the jobs come from."""
        return self.name or next(
            source for source in ("jobs", "files", "generated", "collective") if getattr(self, source) is not None
        )

    def qps_suffix(self, count: int) -> str:
        """Return what the names of its cases with so many QPs a connection end with."""
        suffix = f", {count} QPs" if self.qps != [1] else ""
        return suffix + " in turn" if QueuePairs(count, self.qp_mode).in_turn else suffix

    @model_validator(mode="after")
    def _one(self) -> CaseForm:
        given = [each for each in (self.jobs, self.files, self.generated, self.collective) if each is not None]
        if len(given) != 1:
            raise ValueError("a case must have exactly one of 'jobs', 'files', 'generated' and 'collective'")
        return self


class PolicyForm(_Strict):
    """A policy with options.

    ``fair+split`` is short for ``fair`` with the largest allowed number of splits, ``fair+shifts`` for ``fair`` with
    ``shifts=advise``. ``allocation`` and ``triggers`` replace those of the scenario. ``first``: the policy of flows
    without a live path, until they send at a ``period``.
    """

    policy: str
    name: PolicyName | None = None
    options: dict[str, Any] = {}
    allocation: Annotated[list[Allocation], BeforeValidator(_listed), Field(min_length=1)] | None = None
    triggers: Triggers | None = None
    planned: PlannedFlows = "present"
    first: Literal["ecmp"] | None = None


class ChangeForm(_Strict):
    """At this time, these switches and links fail, or come back."""

    at: Seconds
    names: Annotated[list[str], Field(min_length=1)]
    up: bool = False


class ReferenceForm(_Strict):
    """Published measurements of others by failure (``none``, ``1 spine``, ``16 links``), shown for comparison."""

    name: Title
    source: Annotated[str, Field(min_length=1, max_length=400)]
    kinds: list[Title] = []
    ratio: Annotated[dict[str, Ratio], Field(min_length=1)]
    ratio_worst: dict[str, Ratio] = {}


class TargetForm(_Strict):
    """Upper bound on a policy's mean: by failure, relative to another policy, or both."""

    policy: str
    kinds: list[Title] = []
    at_most: dict[str, Ratio] = {}
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.0
    not_above: str | None = None
    below: list[str] = []
    case_tolerance: Annotated[float, Field(ge=0, le=1)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> TargetForm:
        if not self.at_most and self.not_above is None:
            raise ValueError("a target must have 'at_most' or 'not_above'")
        if self.not_above is None and (self.below or self.case_tolerance is not None):
            raise ValueError("'below' and 'case_tolerance' require 'not_above'")
        return self


class SlowForm(_Strict):
    """Cables (``agg1-core1``) or switches, all cables of which have only a part of their capacity."""

    names: Annotated[list[Title], BeforeValidator(_listed), Field(min_length=1)]
    part: Annotated[float, Field(gt=0, lt=1)]


class ScenarioForm(_Strict):
    """The whole file; the grid is the product of cases, failures, policies, allocations and seeds."""

    name: Title = "scenario"
    fabric: Annotated[Any, Field(description="a path, or the content of a fabric file")]
    cases: Annotated[list[CaseForm], Field(min_length=1)]
    policies: Annotated[
        list[Annotated[PolicyForm, BeforeValidator(_policy)]], BeforeValidator(_listed), Field(min_length=1)
    ]
    slow: list[SlowForm] = []
    failed_spines: Numbers = [0]
    failed_links: Annotated[list[Count], BeforeValidator(_listed)] = []
    failed: list[Annotated[list[Title], BeforeValidator(_listed), Field(min_length=1)]] = []
    changes: list[ChangeForm] = []
    allocation: Annotated[list[Allocation], BeforeValidator(_listed), Field(min_length=1)] = [Allocation.FLOW]
    triggers: Triggers = ["arrival", "epoch", "failure"]
    period: Seconds = 0.0
    until: Annotated[float, Field(gt=0)] = float("inf")
    bins: Seconds = 0.0
    jitter: Annotated[float, Field(ge=0, le=1)] = 0.0
    clock_error: Seconds = 0.0
    seeds: Numbers = [0]
    epochs: Count = 10
    references: list[ReferenceForm] = []
    targets: list[TargetForm] = []

    @property
    def kinds(self) -> list[str]:
        """Kinds of its cases."""
        return list(dict.fromkeys(case.kind + case.qps_suffix(count) for case in self.cases for count in case.qps))

    @model_validator(mode="after")
    def _period(self) -> ScenarioForm:
        wanted = [self.triggers, *(policy.triggers for policy in self.policies if policy.triggers)]
        if any("period" in triggers for triggers in wanted) != (self.period > 0):
            raise ValueError("the trigger 'period' and the field 'period' require each other")
        return self
