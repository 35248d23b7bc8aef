"""The parts that all policies share: signature, options and result."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Annotated, Literal, Protocol

from pydantic import Field

from controller.model.assignment import Assignment
from controller.model.choices.qp_mode import MOST_QPS
from controller.model.fabric import Fabric
from controller.model.plan import Bound
from controller.model.priority import CLASSES, JobClass
from controller.model.timing import Schedule
from controller.model.traffic import Traffic
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan

PaceRule = Literal["levels", "even"]
"""How the rates of flows that share links are divided among jobs (docs/explanation/objective.md, "Paces")."""

DEFAULT_PACES: PaceRule = "even"
"""On packets, slower than spraying in no case where levels are not (docs/how-to/evaluation.md, "Packet engine")."""


MOST_STARTS = 16
"""Seeds from which shifts and classes may be searched."""


@dataclass(frozen=True)
class Options:
    """The options of all policies; each policy ignores those of the others.

    All limits but ``seconds`` and ``exact_ms`` count work, not time.

    Attributes:
        hash: ``ecmp``, ``e_ecmp``: the switch's hash function.
        hash_seeds: ``ecmp``, ``e_ecmp`` where paths have several choices: a seed for each ``switch``, or the ``same``.
        qps: ``e_ecmp``: the QPs over which each flow is cut, 1 to 128.
        rounds: ``fair``: effort of the search after the first plan, in moves tried; ``None``: 300,000, about 50 ms.
        exact_ms: ``fair``: milliseconds of an integer program after the search, on small instances whose lowest level
            is more than 1 % below its bound; 0: none.
        max_splits: ``fair``, ``split``: extra pieces (pieces minus flows) allowed, at most leaves x spines (in three
            layers the links between switches) for each phase or round of the job that has most. ``None``: none for
            ``fair``, which gives one path a flow by default, that most for ``split``.
        churn_price: ``fair`` with a previous plan: the relative gain in ``min_level`` required to move all old flows;
            moving a tenth of them requires a tenth of that gain.
        annealing_rounds: ``annealing``: swaps tried.
        estimate_demand: ``first_fit``, ``annealing``: use Hedera's estimate of each flow's demand (from senders and
            receivers) in place of its bytes.
        ethereal_by: ``ethereal``: count flows by sending host (as the paper's hosts do) or by leaf.
        times: ``fair``: ``use`` the computing times of jobs, or ``ignore`` them: all jobs send all the time.
        shifts: ``fair``: ``advise`` when the iterations of jobs with computing times begin, or leave it ``off``.
        classes: ``fair``: the most classes of priority, 1 to 4, over which jobs are divided that state
            none, where some compute; 1: all these have the lowest one.
        starts: ``fair`` with ``shifts`` or ``classes``: from how many seeds shifts, with paths, and classes are
            searched, 1 to 16; the best is taken, for so many times the effort.
        class_loss: ``fair`` with ``classes``: the part by which a job may be slower than without chosen classes.
        paces: of hosts, ``even``: the busiest hosts of jobs that share links get equal rates; or by the ``levels`` of
            the objective. No path depends on it.
        seconds: ``ilp``: stop after this wall-clock time. Unset by default.
        nodes: ``ilp``: stop after this number of branch-and-bound nodes a level.
    """

    hash: Literal["crc32", "toeplitz"] = "crc32"
    hash_seeds: Literal["switch", "same"] = "switch"
    qps: Annotated[int, Field(ge=1, le=MOST_QPS)] = 1
    rounds: int | None = None
    exact_ms: Annotated[int, Field(ge=0)] = 0
    max_splits: int | None = None
    churn_price: float = 0.05
    annealing_rounds: int = 100_000
    estimate_demand: bool = False
    ethereal_by: Literal["host", "leaf"] = "host"
    times: Literal["use", "ignore"] = "use"
    shifts: Literal["off", "advise"] = "off"
    classes: Annotated[int, Field(ge=1, le=CLASSES)] = 1
    starts: Annotated[int, Field(ge=1, le=MOST_STARTS)] = 1
    class_loss: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    paces: PaceRule = DEFAULT_PACES
    seconds: float | None = None
    nodes: int = 10_000


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a policy.

    Attributes:
        assignment: a path (or several, with shares) for every flow.
        bound: the bounds that the policy itself proved, if any; ``bounds.bound`` computes the others.
        status: ``"ok"``, ``"optimal"`` (proved by the policy), or why it stopped early.
        schedule: when the jobs' iterations begin, if the policy advises it.
        classes: the classes of priority that the policy chose, by job.
        demand: ``Demand.of`` the fabric and the traffic as it is sent (``problem.rounds.as_sent``), if the policy has
            it: who evaluates the plan needs it, too.
    """

    assignment: Assignment
    bound: Bound = field(default_factory=Bound)
    status: str = "ok"
    schedule: Schedule | None = None
    demand: Demand | None = None
    classes: tuple[JobClass, ...] = ()


class PolicyFunction(Protocol):
    """The signature of ``assign`` in every policy's module. Pure: equal arguments give equal results."""

    def __call__(
        self,
        fabric: Fabric,
        traffic: Traffic,
        *,
        seed: int = 0,
        previous: PreviousPlan | None = None,
        options: Options = ...,
    ) -> Result:
        """Assign paths to every flow of ``traffic`` on ``fabric``."""
        ...


@dataclass(frozen=True)
class Policy:
    """An entry of the registry of policies: everything that the rest of the program knows about a policy.

    Attributes:
        splits: whether it may give a flow several paths.
        enforceable: whether switches can follow its plans: flows that a switch cannot distinguish get one path, and
            flows with unknown source ports are not split.
        split_option: the option without which it gives every flow one path; empty: there is none.
        cuts_messages: whether it may cut flows whose messages take turns on their QPs, which no host does: it is a
            reference to compare with.
        draws: whether it chooses at random: every seed is another draw, and a single draw is not representative.
        advises_shifts: whether it takes the option ``shifts``: when the iterations of jobs begin.
        estimates_demand: whether it takes the option ``estimate_demand``, so that Hedera's loop can run it.
        spreads_evenly: whether it gives every flow equal shares of all its live paths, so that packets of each must be
            spread. Simulations compare the iteration times under other policies with those under this one.
        own_kernels: whether it needs kernels beside those of ``fair``, which are then compiled in advance.
    """

    name: str
    description: str
    assign: PolicyFunction
    splits: bool = False
    enforceable: bool = True
    _: KW_ONLY
    split_option: str = ""
    cuts_messages: bool = False
    draws: bool = False
    advises_shifts: bool = False
    estimates_demand: bool = False
    spreads_evenly: bool = False
    own_kernels: bool = True

    def __post_init__(self) -> None:
        """Check that an option has the name ``split_option``; ``ValueError`` otherwise."""
        if self.split_option and self.split_option not in {option.name for option in fields(Options)}:
            raise ValueError(f"split_option: {self.split_option!r}: no policy has an option of this name")

    def splits_with(self, options: Options) -> bool:
        """Return whether it may give a flow several paths under these options."""
        if not self.splits or not self.split_option:
            return self.splits
        value = getattr(options, self.split_option)
        return bool(value) and value != getattr(Options, self.split_option)
