"""The rows of a grid summed up: how each policy did under each failure, over all cases of a kind."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from emulation.evaluation.cell import PERCENTILES, Row
from emulation.evaluation.targets import Verdict


@dataclass(frozen=True)
class Standing:
    """A policy under a failure.

    Means are over seeds first and then over cases, so that a policy with more draws has no more say; ``None`` where a
    case has none (a job never finished an epoch).

    Attributes:
        policy: its name, with the allocation where the grid has several for it.
        cases: how many it is over.
        ratio: epoch communication time over the ideal on the healthy fabric.
        ratio_worst: of the slowest job in the worst case.
        fct_50, fct_99: seconds, mean over cases of that percentile.
        gbps: what a job sends while it communicates.
        link_mean, link_busiest, imbalance: see ``LinkUse``; the busiest of all.
        planning_mean, planning_worst: seconds of the policy a plan.
        moved: flows that changed their path, a simulation.
    """

    scenario: str
    kind: str
    policy: str
    failure: str
    cases: int
    ratio: float | None
    ratio_worst: float | None
    fct_50: float | None
    fct_99: float | None
    gbps: float | None
    link_mean: float | None
    link_busiest: float | None
    imbalance: float | None
    planning_mean: float | None
    planning_worst: float | None
    moved: float | None


def standings_of(rows: Sequence[Row]) -> list[Standing]:
    """One for each scenario, kind, policy and failure, in the order of the rows."""
    several: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        several.setdefault((row["scenario"], row["policy"]), set()).add(row["allocation"])
    grouped: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        alone = len(several[row["scenario"], row["policy"]]) == 1
        label = row["policy"] if alone else f"{row['policy']}, {row['allocation']}"
        grouped.setdefault((row["scenario"], row["kind"], label, row["failure"]), []).append(row)
    return [_standing(*key, group) for key, group in grouped.items()]


def _standing(scenario: str, kind: str, policy: str, failure: str, rows: list[Row]) -> Standing:
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row["case"], []).append(row)

    def mean(value: Callable[[Row], float | None]) -> float | None:
        means = [_over([value(row) for row in group], np.mean) for group in by_case.values()]
        return _over(means, np.mean)

    return Standing(
        scenario=scenario,
        kind=kind,
        policy=policy,
        failure=failure,
        cases=len(by_case),
        ratio=mean(lambda row: row["ratio"]),
        ratio_worst=_over([row["ratio_worst"] for row in rows], np.max),
        fct_50=mean(lambda row: row["fct"]["50"]),
        fct_99=mean(lambda row: row["fct"]["99"]),
        gbps=mean(lambda row: row["gbps"]),
        link_mean=mean(lambda row: row["link_mean"]),
        link_busiest=_over([row["link_busiest"] for row in rows], np.max),
        imbalance=mean(lambda row: row["imbalance"]),
        planning_mean=mean(lambda row: row["planning_mean"]),
        planning_worst=_over([row["planning_worst"] for row in rows], np.max),
        moved=mean(lambda row: row["moved"]),
    )


def _over(values: Sequence[float | None], what: Callable[[list[float]], object]) -> float | None:
    """A number over all values, or none if one is missing: a mean over the others would flatter."""
    known = [value for value in values if value is not None]
    return float(what(known)) if known and len(known) == len(values) else None  # type: ignore[arg-type]


def standings_csv(standings: Iterable[Standing]) -> str:
    """The standings as CSV."""
    return _csv([asdict(standing) for standing in standings])


def verdicts_csv(verdicts: Iterable[Verdict]) -> str:
    """The verdicts as CSV."""
    return _csv([asdict(verdict) for verdict in verdicts])


def rows_csv(rows: Sequence[Row]) -> str:
    """The rows as CSV, a column for each percentile."""
    return _csv(
        [
            {key: value for key, value in row.items() if key != "fct"}
            | {f"fct_{p}": row["fct"][str(p)] for p in PERCENTILES}
            for row in rows
        ]
    )


def _csv(rows: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
