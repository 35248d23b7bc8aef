"""The report of a grid: one HTML file that needs nothing else, and the tables as CSV."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from controller.model.tolerances import ROUNDING
from controller.whole_file import naming_the_mend, write_bytes
from emulation.evaluation.cell import Row
from emulation.evaluation.plots import plot, plot_paper_axes
from emulation.evaluation.standings import (
    PolicyMeans,
    rows_csv,
    standings_csv,
    standings_of,
    tenant_standings_of,
    tenants_csv,
    verdicts_csv,
)
from emulation.evaluation.targets import Reference
from emulation.evaluation.verdicts import Verdict


def write_report(
    folder: Path,
    rows: Sequence[Row],
    notes: Sequence[str] = (),
    *,
    references: Mapping[str, Sequence[Reference]] | None = None,
    verdicts: Sequence[Verdict] = (),
) -> Path:
    """Write ``index.html``, ``standings.csv``, ``cells.csv`` and ``targets.csv``; return the path of the first.

    Args:
        folder: the folder of the report.
        rows: the rows of all cells.
        notes: remarks to print in the report.
        references: published figures of others by scenario, shown below the results.
        verdicts: which targets were reached.

    Raises:
        InputError: the folder cannot be made, or a file cannot be written; one of its name is as it was.
    """
    with naming_the_mend(folder):
        folder.mkdir(parents=True, exist_ok=True)
    standings, of_tenants = standings_of(rows), tenant_standings_of(rows)
    page = folder / "index.html"
    for path, text in (
        (folder / "standings.csv", standings_csv(standings)),
        (folder / "cells.csv", rows_csv(rows)),
        (folder / "targets.csv", verdicts_csv(verdicts)),
        *([(folder / "tenants.csv", tenants_csv(of_tenants))] if of_tenants else []),
        (page, _page(rows, standings, notes, references or {}, verdicts)),
    ):
        write_bytes(path, [text.encode()])
    return page


def _page(
    rows: Sequence[Row],
    standings: Sequence[PolicyMeans],
    notes: Sequence[str],
    references: Mapping[str, Sequence[Reference]],
    verdicts: Sequence[Verdict],
) -> str:
    sections = []
    for scenario in dict.fromkeys(standing.scenario for standing in standings):
        mine = [standing for standing in standings if standing.scenario == scenario]
        kinds = [
            _kind(
                kind,
                [standing for standing in mine if standing.kind == kind],
                [each for each in references.get(scenario, ()) if not each.kinds or kind in each.kinds],
                [row for row in rows if row["scenario"] == scenario and row["kind"] == kind],
            )
            for kind in dict.fromkeys(standing.kind for standing in mine)
        ]
        targets = [_target(verdict) for verdict in verdicts if verdict.scenario == scenario]
        sections.append(Section(scenario, kinds, targets, _cases([row for row in rows if row["scenario"] == scenario])))
    return _template().render(
        title=f"{', '.join(section.name for section in sections)}: simulated",
        simulations=len(rows),
        seconds=sum(row["wall_seconds"] for row in rows),
        notes=notes,
        sections=sections,
    )


@cache
def _template() -> Template:
    """Return the page's template; it escapes every text that it is given."""
    loader = PackageLoader("emulation.evaluation", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2")


@dataclass(frozen=True)
class ReportLine:
    """A row of a table: a policy (or the reference that others measured) and (text, stands out) by failure."""

    name: str
    cells: Sequence[tuple[str, bool]]
    reference: bool = False


@dataclass(frozen=True)
class ReportTable:
    """Policies down, failures across."""

    title: str
    failures: Sequence[str]
    lines: Sequence[ReportLine]


@dataclass(frozen=True)
class KindSection:
    """The tables of one kind of cases, with pictures: what each shows, and its content (PNG, base64)."""

    name: str
    cases: int
    tables: Sequence[ReportTable]
    sources: Sequence[Reference]
    pictures: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    """A scenario: its kinds of cases, its targets (cells of a table), and each case by itself."""

    name: str
    kinds: Sequence[KindSection]
    targets: Sequence[Sequence[str]]
    cases: Sequence[ReportTable]


def _kind(kind: str, standings: Sequence[PolicyMeans], others: Sequence[Reference], rows: Sequence[Row]) -> KindSection:
    used, iteration = (
        "utilisation of leaf-spine links, computing included: mean / busiest (%)",
        "iteration time, computing included, ÷ alone: mean / 99th percentile",
    )
    relative = "iteration time ÷ that of spray: mean / 99th percentile; mean slowdown ÷ lower bound"
    tables = (
        _table("epoch time ÷ ideal", standings, _ratio, lambda s: s.ratio, others),
        _table(iteration, standings, _iteration, lambda s: s.iteration),
        _table(relative, standings, _relative, lambda s: s.iteration_spray),
        _table("transfer time, median / 99th percentile (s)", standings, _fct, lambda s: s.fct_99),
        _table("throughput of a job (Gbit/s)", standings, lambda s: _number(s.gbps, 0), None),
        _table("busiest ÷ mean of a leaf's links", standings, lambda s: _number(s.imbalance, 3), lambda s: s.imbalance),
        _table(used, standings, _used, None),
        _table("planning time, mean / worst (ms)", standings, _planning, None),
        _table("changes of flows' paths per simulation / of those, while the flow sent", standings, _moved, None),
    )
    pictures = [("epoch, transfer and planning times by policy", plot(standings))]
    over = plot_paper_axes(rows)
    if over is not None:
        pictures.append(("epoch and planning times over jobs, rings and failures", over))
    encoded = [(text, base64.b64encode(png).decode()) for text, png in pictures]
    return KindSection(kind, max(standing.cases for standing in standings), tables, others, encoded)


def _table(
    title: str,
    standings: Sequence[PolicyMeans],
    text: Callable[[PolicyMeans], str],
    rank: Callable[[PolicyMeans], float | None] | None,
    others: Sequence[Reference] = (),
) -> ReportTable:
    """Return a table of policies with the figures of others below; the lowest policy by ``rank`` is highlighted."""
    failures = list(dict.fromkeys(standing.failure for standing in standings))
    by_policy: dict[str, dict[str, PolicyMeans]] = {}
    for standing in standings:
        by_policy.setdefault(standing.policy, {})[standing.failure] = standing
    best = {
        failure: min(
            (value for s in standings if rank and s.failure == failure and (value := rank(s)) is not None), default=None
        )
        for failure in failures
    }

    def cell(standing: PolicyMeans | None, failure: str) -> tuple[str, bool]:
        if standing is None:
            return "-", False
        value, low = rank(standing) if rank else None, best[failure]
        return text(standing), value is not None and low is not None and value <= low * (1 + ROUNDING)

    lines = [
        ReportLine(policy, [cell(row.get(failure), failure) for failure in failures])
        for policy, row in by_policy.items()
    ]
    lines += [
        ReportLine(other.name, [(_given(other, failure), False) for failure in failures], True) for other in others
    ]
    return ReportTable(title, failures, lines)


def _given(other: Reference, failure: str) -> str:
    worst = f" ({_number(other.ratio_worst[failure], 3)})" if failure in other.ratio_worst else ""
    return _number(other.ratio.get(failure), 3) + worst


def _target(verdict: Verdict) -> tuple[str, ...]:
    """Return the cells of a target: demand, cases, failure, measured, allowed, reached."""
    return (
        verdict.what,
        verdict.kind,
        verdict.failure,
        _number(verdict.measured, 4),
        _number(verdict.allowed, 4),
        "yes" if verdict.reached else "no",
    )


def _cases(rows: Sequence[Row]) -> list[ReportTable]:
    """Return a table for each case, with means over seeds of the values that the first table summarises."""
    single = [{**row, "kind": f"{row['kind']}: {row['case']}"} for row in rows]
    standings = standings_of(single)
    return [
        _table(kind, [standing for standing in standings if standing.kind == kind], _ratio, lambda s: s.ratio)
        for kind in dict.fromkeys(standing.kind for standing in standings)
    ]


def _ratio(standing: PolicyMeans) -> str:
    return f"{_number(standing.ratio, 3)} ({_number(standing.ratio_worst, 3)})"


def _iteration(standing: PolicyMeans) -> str:
    return f"{_number(standing.iteration, 3)} / {_number(standing.iteration_99, 3)}"


def _relative(standing: PolicyMeans) -> str:
    means = f"{_number(standing.iteration_spray, 3)} / {_number(standing.iteration_99_spray, 3)}"
    return f"{means}; {_number(standing.iteration_bound, 3)}"


def _fct(standing: PolicyMeans) -> str:
    return f"{_number(standing.fct_50, 4)} / {_number(standing.fct_99, 4)}"


def _used(standing: PolicyMeans) -> str:
    mean, busiest = (None if value is None else value * 100 for value in (standing.link_mean, standing.link_busiest))
    return f"{_number(mean, 1)} / {_number(busiest, 1)}"


def _planning(standing: PolicyMeans) -> str:
    mean, worst = (
        None if value is None else value * 1e3 for value in (standing.planning_mean, standing.planning_worst)
    )
    return f"{_number(mean, 2)} / {_number(worst, 1)}"


def _moved(standing: PolicyMeans) -> str:
    return f"{_number(standing.moved, 0)} / {_number(standing.moved_sending, 0)}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
