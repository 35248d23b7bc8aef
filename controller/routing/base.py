"""What every policy has in common: its signature, its options, its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.plan import Bound
from controller.model.traffic import Traffic
from controller.routing.previous import Previous

TOLERANCE = 1e-6
"""The one relative tolerance: levels, speeds and loads that differ by less are equal."""


@dataclass(frozen=True)
class Options:
    """Every knob of every policy; a policy ignores what is not its own. All limits count work, not time.

    Attributes:
        hash: ``ecmp``: the switch's hash function.
        rounds: ``fair``: effort of the search after the first plan, in moves tried; ``None``: 300,000, about 50 ms.
        max_splits: ``fair``, ``split``: extra pieces (pieces minus flows) allowed, at most leaves x spines. ``None``:
            none for ``fair``, which gives one path a flow unless told otherwise, leaves x spines for ``split``.
        churn_price: ``fair`` with a previous plan: the part of ``min_level`` that moving all old flows would have to
            bring. Moving a tenth of them must bring a tenth of that.
        annealing_rounds: ``annealing``: swaps tried.
        estimate_demand: ``first_fit``, ``annealing``: take Hedera's estimate of each flow's demand (from who sends to
            whom) in place of its bytes.
        ethereal_by: ``ethereal``: count flows by sending host (as the paper's hosts do) or by leaf.
        seconds: ``ilp``: stop after so long. The only limit by the clock, and only if asked for.
        nodes: ``ilp``: stop after so many branch-and-bound nodes a level.
    """

    hash: Literal["crc32", "toeplitz"] = "crc32"
    rounds: int | None = None
    max_splits: int | None = None
    churn_price: float = 0.05
    annealing_rounds: int = 100_000
    estimate_demand: bool = False
    ethereal_by: Literal["host", "leaf"] = "host"
    seconds: float | None = None
    nodes: int = 10_000


@dataclass(frozen=True, eq=False)
class Result:
    """A policy's answer.

    Attributes:
        assignment: a path (or several, with shares) for every flow.
        bound: what the policy itself proved, if anything; ``bounds.bound`` knows the rest.
        status: ``"ok"``, ``"optimal"`` (proved by the policy), or why it stopped early.
    """

    assignment: Assignment
    bound: Bound = field(default_factory=Bound)
    status: str = "ok"


class PolicyFunction(Protocol):
    """The signature of ``assign`` in every policy's file. Pure: equal arguments give equal answers."""

    def __call__(
        self,
        fabric: Fabric,
        traffic: Traffic,
        *,
        seed: int = 0,
        previous: Previous | None = None,
        options: Options = ...,
    ) -> Result: ...


@dataclass(frozen=True)
class Policy:
    """A row of the registry. ``splits``: whether it may give a flow several paths."""

    name: str
    description: str
    assign: PolicyFunction
    splits: bool = False
