"""The report of a grid: one HTML file that needs nothing else, and the tables as CSV."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

from emulation.evaluation.cell import Row
from emulation.evaluation.plots import plot
from emulation.evaluation.standings import Standing, rows_csv, standings_csv, standings_of, verdicts_csv
from emulation.evaluation.targets import Reference, Verdict

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } caption { text-align: left; font-weight: 600; padding: .3rem 0 }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child { text-align: left } td.best { font-weight: 700 }
tr.other { font-style: italic } p.source { font-size: 85% } img { max-width: 100% }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } th, td { border-color: #444 }
  img { background: #fff } }
"""


def write_report(
    folder: Path,
    rows: Sequence[Row],
    notes: Sequence[str] = (),
    *,
    references: Mapping[str, Sequence[Reference]] | None = None,
    verdicts: Sequence[Verdict] = (),
) -> Path:
    """Write ``index.html``, ``standings.csv``, ``cells.csv`` and ``targets.csv``; the path of the first.

    Args:
        references: by scenario, figures of others to stand below ours.
        verdicts: which targets were reached.

    Raises:
        OSError: the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    standings = standings_of(rows)
    (folder / "standings.csv").write_text(standings_csv(standings), encoding="utf-8")
    (folder / "cells.csv").write_text(rows_csv(rows), encoding="utf-8")
    (folder / "targets.csv").write_text(verdicts_csv(verdicts), encoding="utf-8")
    page = folder / "index.html"
    page.write_text(_page(rows, standings, notes, references or {}, verdicts), encoding="utf-8")
    return page


def _page(
    rows: Sequence[Row],
    standings: Sequence[Standing],
    notes: Sequence[str],
    references: Mapping[str, Sequence[Reference]],
    verdicts: Sequence[Verdict],
) -> str:
    scenarios = list(dict.fromkeys(standing.scenario for standing in standings))
    title = f"{', '.join(scenarios)}: simulated"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{len(rows)} simulations, {sum(row['wall_seconds'] for row in rows):.0f} s of work. Epoch time is that of"
        " the communication alone, over the least it can take on the healthy fabric with nobody else there: mean over"
        " the jobs of a case, then over cases; in parentheses the slowest job of all cases.</p>",
        *(f"<p>Note: {escape(note)}.</p>" for note in notes),
    ]
    for scenario in scenarios:
        parts.append(f"<h2>{escape(scenario)}</h2>")
        mine = [standing for standing in standings if standing.scenario == scenario]
        for kind in dict.fromkeys(standing.kind for standing in mine):
            others = [each for each in references.get(scenario, ()) if not each.kinds or kind in each.kinds]
            parts.append(_kind(kind, [standing for standing in mine if standing.kind == kind], others))
        parts.append(_targets([verdict for verdict in verdicts if verdict.scenario == scenario]))
        parts.append(_cases([row for row in rows if row["scenario"] == scenario]))
    parts.append("</body></html>")
    return "\n".join(parts)


def _kind(kind: str, standings: Sequence[Standing], others: Sequence[Reference]) -> str:
    picture = base64.b64encode(plot(standings)).decode()
    cases = max(standing.cases for standing in standings)
    return "\n".join(
        [
            f"<h3>{escape(kind)} ({cases} case{'s' * (cases > 1)})</h3>",
            _table("epoch time ÷ ideal", standings, _ratio, lambda standing: standing.ratio, others),
            *(f'<p class="source">{escape(other.name)}: {escape(other.source)}.</p>' for other in others),
            f'<img alt="epoch, transfer and planning times by policy" src="data:image/png;base64,{picture}">',
            _table("transfer time, median / 99th percentile (s)", standings, _fct, lambda standing: standing.fct_99),
            _table("throughput of a job (Gbit/s)", standings, lambda s: _number(s.gbps, 0), None),
            _table(
                "busiest ÷ mean of a leaf's links", standings, lambda s: _number(s.imbalance, 3), lambda s: s.imbalance
            ),
            _table("utilisation of leaf-spine links, computing included: mean / busiest (%)", standings, _used, None),
            _table("planning time, mean / worst (ms)", standings, _planning, None),
            _table("flows moved, a simulation", standings, lambda s: _number(s.moved, 0), None),
        ]
    )


def _table(
    title: str,
    standings: Sequence[Standing],
    text: Callable[[Standing], str],
    rank: Callable[[Standing], float | None] | None,
    others: Sequence[Reference] = (),
) -> str:
    """Policies down and others' figures below, failures across; what is lowest of ours by ``rank`` stands out."""
    failures = list(dict.fromkeys(standing.failure for standing in standings))
    by_policy: dict[str, dict[str, Standing]] = {}
    for standing in standings:
        by_policy.setdefault(standing.policy, {})[standing.failure] = standing
    best = {
        failure: min(
            (value for s in standings if rank and s.failure == failure and (value := rank(s)) is not None), default=None
        )
        for failure in failures
    }
    lines = [f"<table><caption>{escape(title)}</caption><tr><th>policy</th>"]
    lines += [f"<th>failed: {escape(failure)}</th>" for failure in failures]
    lines.append("</tr>")
    for policy, row in by_policy.items():
        cells = []
        for failure in failures:
            if failure not in row:
                cells.append("<td>-</td>")
                continue
            value, low = rank(row[failure]) if rank else None, best[failure]
            stands_out = value is not None and low is not None and value <= low * (1 + 1e-9)
            cells.append(f"<td{' class=best' if stands_out else ''}>{escape(text(row[failure]))}</td>")
        lines.append(f"<tr><td>{escape(policy)}</td>{''.join(cells)}</tr>")
    for other in others:
        given = (f"<td>{escape(_given(other, failure))}</td>" for failure in failures)
        lines.append(f"<tr class=other><td>{escape(other.name)}</td>{''.join(given)}</tr>")
    return "".join(lines) + "</table>"


def _given(other: Reference, failure: str) -> str:
    worst = f" ({_number(other.ratio_worst[failure], 3)})" if failure in other.ratio_worst else ""
    return _number(other.ratio.get(failure), 3) + worst


def _targets(verdicts: Sequence[Verdict]) -> str:
    if not verdicts:
        return ""
    heads = ("target", "cases", "failed", "measured", "allowed", "reached")
    lines = ["<table><caption>targets</caption><tr>", *(f"<th>{head}</th>" for head in heads), "</tr>"]
    for verdict in verdicts:
        cells = (
            verdict.what, verdict.kind, verdict.failure, _number(verdict.measured, 4), _number(verdict.allowed, 4),
            "yes" if verdict.reached else "no",
        )  # fmt: skip
        lines.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    return "".join(lines) + "</table>"


def _cases(rows: Sequence[Row]) -> str:
    """Every case by itself: the mean over seeds of what the first table sums up."""
    single = [{**row, "kind": f"{row['kind']}: {row['case']}"} for row in rows]
    standings = standings_of(single)
    kinds = dict.fromkeys(standing.kind for standing in standings)
    tables = [
        _table(kind, [standing for standing in standings if standing.kind == kind], _ratio, lambda s: s.ratio)
        for kind in kinds
    ]
    return f"<details><summary>the cases one by one: epoch time ÷ ideal</summary>{''.join(tables)}</details>"


def _ratio(standing: Standing) -> str:
    return f"{_number(standing.ratio, 3)} ({_number(standing.ratio_worst, 3)})"


def _fct(standing: Standing) -> str:
    return f"{_number(standing.fct_50, 4)} / {_number(standing.fct_99, 4)}"


def _used(standing: Standing) -> str:
    mean, busiest = (None if value is None else value * 100 for value in (standing.link_mean, standing.link_busiest))
    return f"{_number(mean, 1)} / {_number(busiest, 1)}"


def _planning(standing: Standing) -> str:
    mean, worst = (
        None if value is None else value * 1e3 for value in (standing.planning_mean, standing.planning_worst)
    )
    return f"{_number(mean, 2)} / {_number(worst, 1)}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
