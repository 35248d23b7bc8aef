"""The rows of a grid summed up: how each policy did under each failure, over all cases of a kind."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from controller.routing import BUILT_IN
from emulation.evaluation.cell import PERCENTILES, Row
from emulation.evaluation.verdicts import Verdict


@dataclass(frozen=True)
class PolicyMeans:
    """Means of a policy under a failure.

    Means are over seeds first and then over cases, so that a policy with more draws has no larger weight; ``None`` if a
    case has no value (a job never finished an epoch).

    Attributes:
        policy: its name, with the allocation if the grid has several for it.
        cases: number of cases.
        ratio: epoch communication time over the ideal on the healthy fabric.
        ratio_worst: that of the slowest job in the worst case.
        iteration: time of iterations, computation included, over their time alone on the healthy fabric.
        iteration_99: the 99th percentile of that, mean over cases.
        iteration_spray, iteration_99_spray: ``iteration`` and ``iteration_99`` over those under ``spray``, case by
            case; ``None`` if that was not simulated.
        iteration_bound: mean slowdown over its lower bound; ``None`` where the bound does not hold in some case.
        fct_50, fct_99: seconds, mean over cases of that percentile.
        gbps: rate of a job while it communicates.
        link_mean, link_busiest, imbalance: see ``LinkUse``; the busiest of all.
        planning_mean, planning_worst: seconds of the policy per plan.
        moved, moved_sending: changes of a flow's path per simulation, and those while the flow sent.
    """

    scenario: str
    kind: str
    policy: str
    failure: str
    cases: int
    ratio: float | None
    ratio_worst: float | None
    iteration: float | None
    iteration_99: float | None
    iteration_spray: float | None
    iteration_99_spray: float | None
    iteration_bound: float | None
    fct_50: float | None
    fct_99: float | None
    gbps: float | None
    link_mean: float | None
    link_busiest: float | None
    imbalance: float | None
    planning_mean: float | None
    planning_worst: float | None
    moved: float | None
    moved_sending: float | None


def standings_of(rows: Sequence[Row]) -> list[PolicyMeans]:
    """One for each scenario, kind, policy and failure, in the order of the rows."""
    reference = _under_spray(rows)
    return [
        _standing(scenario, kind, policy, failure, group, reference.get((scenario, kind, failure), {}))
        for (scenario, kind, policy, failure), group in _grouped(rows).items()
    ]


def _grouped(rows: Sequence[Row]) -> dict[tuple[str, str, str, str], list[Row]]:
    """Return the rows by scenario, kind, policy (with the allocation if there are several for it) and failure."""
    several: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        several.setdefault((row["scenario"], row["policy"]), set()).add(row["allocation"])
    grouped: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        alone = len(several[row["scenario"], row["policy"]]) == 1
        label = row["policy"] if alone else f"{row['policy']}, {row['allocation']}"
        grouped.setdefault((row["scenario"], row["kind"], label, row["failure"]), []).append(row)
    return grouped


def _under_spray(rows: Sequence[Row]) -> dict[tuple[str, str, str], dict[str, Row]]:
    """Return the row of ``spray`` in each case by scenario, kind and failure; paced if that was simulated."""
    evenly = {name for name, policy in BUILT_IN.items() if policy.spreads_evenly}
    rows_of: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in sorted(rows, key=lambda row: bool(row["allocation"] == "paced")):
        if row["policy"] in evenly and row["iteration"] is not None:
            rows_of.setdefault((row["scenario"], row["kind"], row["failure"]), {})[row["case"]] = row
    return rows_of


def _part_of(row: Row, reference: Row | None, name: str) -> float | None:
    value, of = row[name], None if reference is None else reference[name]
    return None if value is None or not of else value / of


def _standing(
    scenario: str, kind: str, policy: str, failure: str, rows: list[Row], reference: dict[str, Row]
) -> PolicyMeans:
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row["case"], []).append(row)

    def mean(value: Callable[[Row], float | None]) -> float | None:
        means = [_over([value(row) for row in group], np.mean) for group in by_case.values()]
        return _over(means, np.mean)

    return PolicyMeans(
        scenario=scenario,
        kind=kind,
        policy=policy,
        failure=failure,
        cases=len(by_case),
        ratio=mean(lambda row: row["ratio"]),
        ratio_worst=_over([row["ratio_worst"] for row in rows], np.max),
        iteration=mean(lambda row: row["iteration"]),
        iteration_99=mean(lambda row: row["iteration_99"]),
        iteration_spray=mean(lambda row: _part_of(row, reference.get(row["case"]), "iteration")),
        iteration_99_spray=mean(lambda row: _part_of(row, reference.get(row["case"]), "iteration_99")),
        iteration_bound=mean(lambda row: row["iteration_bound"]),
        fct_50=mean(lambda row: row["fct"]["50"]),
        fct_99=mean(lambda row: row["fct"]["99"]),
        gbps=mean(lambda row: row["gbps"]),
        link_mean=mean(lambda row: row["link_mean"]),
        link_busiest=_over([row["link_busiest"] for row in rows], np.max),
        imbalance=mean(lambda row: row["imbalance"]),
        planning_mean=mean(lambda row: row["planning_mean"]),
        planning_worst=_over([row["planning_worst"] for row in rows], np.max),
        moved=mean(lambda row: row["moved"]),
        moved_sending=mean(lambda row: row["moved_sending"]),
    )


@dataclass(frozen=True)
class TenantMeans:
    """Means of a policy for the jobs of a tenant, over seeds and then over cases.

    Attributes:
        policy: its name, with the allocation if the grid has several for it.
        cases: number of cases in which it has jobs.
        jobs: of the tenant, mean over cases.
        iteration: time of their iterations, computation included, over their time alone on the healthy fabric;
            ``None`` if some job finished none.
    """

    scenario: str
    kind: str
    policy: str
    failure: str
    tenant: str
    cases: int
    jobs: float
    iteration: float | None


def tenant_standings_of(rows: Sequence[Row]) -> list[TenantMeans]:
    """One for each scenario, kind, policy, failure and tenant; none where no job has a tenant."""
    means = []
    for (scenario, kind, policy, failure), group in _grouped(rows).items():
        for tenant in sorted({name for row in group for name in row.get("tenants", {})}):
            by_case: dict[str, list[Row]] = {}
            for row in group:
                if tenant in row.get("tenants", {}):
                    by_case.setdefault(row["case"], []).append(row["tenants"][tenant])
            own = [_over([row["iteration"] for row in of_seeds], np.mean) for of_seeds in by_case.values()]
            jobs = float(np.mean([of_seeds[0]["jobs"] for of_seeds in by_case.values()]))
            means.append(TenantMeans(scenario, kind, policy, failure, tenant, len(by_case), jobs, _over(own, np.mean)))
    return means


def _over(values: Sequence[float | None], what: Callable[[list[float]], object]) -> float | None:
    """Return ``what`` of all values, or ``None`` if one is missing, since a mean over the others would be too low."""
    known = [value for value in values if value is not None]
    return float(what(known)) if known and len(known) == len(values) else None  # type: ignore[arg-type]


def standings_csv(standings: Iterable[PolicyMeans]) -> str:
    """Return the standings as CSV."""
    return _csv([asdict(standing) for standing in standings])


def tenants_csv(standings: Iterable[TenantMeans]) -> str:
    """Return the standings by tenant as CSV."""
    return _csv([asdict(standing) for standing in standings])


def verdicts_csv(verdicts: Iterable[Verdict]) -> str:
    """Return the verdicts as CSV."""
    return _csv([asdict(verdict) for verdict in verdicts])


def rows_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV, with a column for each percentile."""
    return _csv(
        [
            {key: value for key, value in row.items() if key not in ("fct", "tenants")}
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
