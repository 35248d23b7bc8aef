"""``fairspine simulate``: scenarios on the flow-level simulator, and their report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.shared.command_error import CommandError
from controller.cli.shared.output import Printer, number, seconds
from controller.cli.shared.policy_help import ScenarioPolicies
from controller.model.errors import InputError

if TYPE_CHECKING:
    from emulation.evaluation.standings import PolicyMeans, TenantMeans
    from emulation.evaluation.verdicts import Verdict


def simulate(
    scenario: Annotated[
        list[Path],
        typer.Option("--scenario", metavar="FILE", help="A scenario (YAML or JSON); may be given several times."),
    ],
    policies: ScenarioPolicies = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the report and finished simulations.")
    ] = Path("out/evaluation"),
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=1024, help="Number of simulations at the same time on this machine.")
    ] = 1,
    backend: Annotated[
        str, typer.Option("--backend", help="local, or dask: run the simulations on a cluster.")
    ] = "local",
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Address of the Dask scheduler, such as tcp://host:8786.",
            show_default=False,
        ),
    ] = None,
    results: Annotated[
        bool, typer.Option("--results", help="Also write the full results of every simulation, as JSON and Parquet.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Only the first case of each kind, two epochs per job, at most one failure, one seed, no targets.",
        ),
    ] = False,
    *,
    output: Printer,
) -> None:
    """Simulate scenarios under several policies, and write a report.

    The report is index.html in the folder --out, with standings.csv and cells.csv. A sweep that was stopped continues
    when it is started again.
    """
    try:
        from emulation.circuits.scenario import is_on_circuits, load_circuit_scenario
        from emulation.evaluation.report import write_report
        from emulation.evaluation.scenario import load_scenario
        from emulation.evaluation.standings import standings_of, tenant_standings_of
        from emulation.evaluation.sweep import Finished, SweepBackend, check_installed, sweep
        from emulation.evaluation.verdicts import verdicts_of

        chosen = _backend(SweepBackend, backend, scheduler)
        check_installed(workers=workers, backend=chosen, whole=results)
    except ModuleNotFoundError as error:
        extra = "[cluster]" if error.name == "distributed" else ""
        raise CommandError(f"{error.name} is not installed: pip install 'fairspine{extra}'") from None

    names = None if policies is None else [name.strip() for name in policies.split(",")]
    of_circuits = [path for path in scenario if is_on_circuits(path)]
    if of_circuits and results:
        raise InputError("full results are not kept of optical circuits", source=str(of_circuits[0]), field="--results")
    circuits = [load_circuit_scenario(path, names) for path in of_circuits]
    grids = [load_scenario(path, names) for path in scenario if path not in of_circuits]
    if quick:
        grids, circuits = [grid.quick() for grid in grids], [grid.quick() for grid in circuits]
    ordered = [*(path for path in scenario if path not in of_circuits), *of_circuits]
    all_names = [*(grid.name for grid in grids), *(grid.name for grid in circuits)]
    for i, name in enumerate(all_names):
        if name in all_names[:i]:
            raise InputError("a previous scenario has this name", source=str(ordered[i]), field="name", value=name)
    notes = [f"{grid.name}: {note}" for grid in grids for note in grid.notes]
    notes += [f"{each.name}: {note}" for each in circuits for note in each.notes]
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    try:
        with simulations_progress() as progress:
            rows = sweep(
                [cell for grid in grids for cell in grid.cells()],
                Finished(out / "cells"),
                whole=out / "results" if results else None,
                workers=workers,
                backend=chosen,
                scheduler=scheduler,
                progress=progress,
            )
        rows += [cell.row() for grid in circuits for cell in grid.cells]
        verdicts = [verdict for grid in grids for verdict in verdicts_of(grid.name, grid.targets, rows)]
        references = {grid.name: grid.references for grid in grids}
        page = write_report(out, rows, notes, references=references, verdicts=verdicts)
    except KeyboardInterrupt:
        raise CommandError("stopped; a new start continues from here", exit_code=130) from None
    except OSError as error:
        raise CommandError(str(error)) from None
    standings, of_tenants = standings_of(rows), tenant_standings_of(rows)
    if not output.is_table:
        document = {"report": str(page), "notes": notes, "standings": standings, "targets": verdicts, "cells": rows}
        output.document(document | ({"tenants": of_tenants} if of_tenants else {}))
    else:
        grouped: dict[str, list[PolicyMeans]] = {}
        for standing in standings:
            grouped.setdefault(f"{standing.scenario}, {standing.kind}", []).append(standing)
        for title, group in grouped.items():
            _print_group(output, title, group)
            _print_tenants(output, title, [one for one in of_tenants if f"{one.scenario}, {one.kind}" == title])
        if verdicts:
            _print_targets(output, verdicts)
        typer.echo(f"report: {page}")
    stalled = sum(row["stalled"] for row in rows)
    if stalled:
        raise CommandError(
            f"in {stalled} of {len(rows)} simulations a job waited for a path that never became available"
        )
    missed = sum(not verdict.reached for verdict in verdicts)
    if missed:
        raise CommandError(f"{missed} of {len(verdicts)} targets were not reached")


def _backend(kinds: Any, name: str, scheduler: str | None) -> Any:
    """Return the backend of this name.

    Raises:
        InputError: there is no such backend, or ``--scheduler`` does not fit it.
    """
    if name not in list(kinds):
        raise InputError(f"there are {', '.join(kinds)}", field="--backend", value=name)
    if (name == kinds.DASK) != (scheduler is not None):
        raise InputError(
            "--backend dask and --scheduler ADDRESS require each other", field="--scheduler", value=scheduler
        )
    return kinds(name)


@contextmanager
def simulations_progress() -> Iterator[Callable[[int, int], None] | None]:
    """Show a progress bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    with Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("")
        yield lambda done, of: progress.update(task, completed=done, total=of)


def _print_group(output: Printer, title: str, standings: Sequence[PolicyMeans]) -> None:
    failures = list(dict.fromkeys(standing.failure for standing in standings))
    at = {(standing.policy, standing.failure): standing for standing in standings}
    cases = max(standing.cases for standing in standings)
    # Without computation, iterations are epochs, and the column would repeat the ones before.
    against_spray = any(s.iteration_spray is not None and s.iteration != s.ratio for s in standings)
    rows = []
    for policy in dict.fromkeys(standing.policy for standing in standings):
        mine = [at[policy, failure] for failure in failures if (policy, failure) in at]
        planning = [standing.planning_mean for standing in mine if standing.planning_mean is not None]
        rows.append(
            (
                policy,
                *(
                    f"{number(standing.ratio)} ({number(standing.ratio_worst)})"
                    if (standing := at.get((policy, failure)))
                    else "-"
                    for failure in failures
                ),
                *((number(mine[0].iteration_spray),) if against_spray else ()),
                seconds(sum(planning) / len(planning) if planning else None),
            )
        )
    output.table(
        f"{title}: epoch time divided by the ideal, by failure, mean of cases ({cases}), and the slowest job of all",
        (
            "policy",
            *(f"{failure}>" for failure in failures),
            *(("iteration ÷ spray>",) if against_spray else ()),
            "planning>",
        ),
        rows,
        give_up=("planning>", *(f"{failure}>" for failure in reversed(failures[1:]))),
    )


def _print_tenants(output: Printer, title: str, standings: Sequence[TenantMeans]) -> None:
    """Print a row for each policy and a column for each tenant and failure; nothing without tenants."""
    columns = list(dict.fromkeys((one.tenant, one.failure) for one in standings))
    if not columns:
        return
    at = {(one.policy, one.tenant, one.failure): one for one in standings}
    failures = len({failure for _, failure in columns})
    output.table(
        f"{title}: iteration time of tenants' jobs divided by that alone",
        ("policy", *(f"{tenant}>" if failures == 1 else f"{tenant}, {failure}>" for tenant, failure in columns)),
        [
            (policy, *(number(at[policy, *column].iteration) if (policy, *column) in at else "-" for column in columns))
            for policy in dict.fromkeys(one.policy for one in standings)
        ],
    )


def _print_targets(output: Printer, verdicts: Sequence[Verdict]) -> None:
    rows = [
        (
            f"{verdict.scenario}, {verdict.kind}",
            verdict.failure,
            verdict.what,
            number(verdict.measured),
            number(verdict.allowed),
            "yes" if verdict.reached else "NO",
        )
        for verdict in verdicts
    ]
    output.table(
        "targets",
        ("cases", "failed", "epoch time ÷ ideal", "measured>", "allowed>", "reached"),
        rows,
        shorten=("cases", "failed", "epoch time ÷ ideal"),
    )
