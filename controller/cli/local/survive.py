"""``fairspine survive``: the effect of each failure on each job's speed, from files or at a running controller."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.local.planning import (
    HeadroomOption,
    OptionalFabricOption,
    OptionalJobOption,
    OptionsOption,
    PolicyOption,
    SeedOption,
    load_traffic,
    needed_files,
    refuse_with_live,
)
from controller.cli.shared.output import Printer, number, plural
from controller.model.choices.failure_kind import FailureKind
from controller.model.errors import InputError
from controller.model.tolerances import ROUNDING

if TYPE_CHECKING:
    from controller.planning.survival import Failure, Outcome, Situation

_MOST_FAILURES = 100_000
_MOST_IN_SEQUENCE = 16
_ROWS = 10
_OF_FILES = ("fabric", "job", "policy", "seed", "option", "headroom", "workers")

# Members that are read of a SurvivalDocument.
_DOCUMENT = ("jobs", "before", "failures", "above", "sequence", "bears_at_most")
_OUTCOME = ("names", "min_speed", "speeds", "unroutable", "moved")


def survive(
    ctx: typer.Context,
    fabric: OptionalFabricOption = None,
    job: OptionalJobOption = None,
    policy: PolicyOption = "fair",
    seed: SeedOption = 0,
    option: OptionsOption = [],  # noqa: B006 (typer makes a new one)
    headroom: HeadroomOption = 0.0,
    kind: Annotated[
        list[FailureKind],
        typer.Option(
            "--kind",
            help="Kind of failure: a cable, a spine, an aggregation switch, a core, or all parallel cables between two "
            "switches; may be given several times.",
            show_default="all",
        ),
    ] = list(FailureKind),  # noqa: B006
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Simulate every pair of failures instead of single failures.")
    ] = False,
    above: Annotated[
        float | None,
        typer.Option(
            "--above",
            min=0.0,
            max=1.0,
            metavar="SPEED",
            help="Also simulate the worst failures one after another until a job is below this speed.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option("--workers", min=1, max=256, help="Number of planning processes.", show_default="one a processor"),
    ] = os.cpu_count() or 1,
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Number of failures in the table, worst first; JSON contains all.")
    ] = _ROWS,
    live: Annotated[
        bool, typer.Option("--live", help="Analyse the jobs of a running controller on its present fabric instead.")
    ] = False,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Make a new plan for each single failure, and show the resulting speed of each job.

    The speed of a job is that of its slowest collective; 1 is the time that the collective takes alone on the fabric
    without failures. Failures of leaves and host links are not simulated: hosts with one port would have no path under
    any plan.
    """
    if live:
        refuse_with_live(ctx, _OF_FILES)
        _show(output, _live(remote.client(), kind, pairs, above), rows)
        return
    place_file, job_files = needed_files(ctx, fabric, job)

    from controller.planning.headroom import with_headroom
    from controller.planning.survival import Situation, single_failures, worst_sequence
    from controller.planning.survival import pairs as pairs_of
    from controller.planning.survival import survive as analyse
    from controller.planning.survival_document import survival_document
    from controller.routing import POLICIES
    from controller.routing.options_text import parse_options

    options = parse_options(option)
    place, traffic = load_traffic(place_file, job_files)
    POLICIES.named(policy)
    place = with_headroom(place, headroom)
    single = single_failures(place, kind)
    n_failures = len(single) * (len(single) - 1) // 2 if pairs else len(single)
    if n_failures > _MOST_FAILURES:
        raise InputError(
            f"{n_failures:,} pairs of failures are too many (at most {_MOST_FAILURES:,}); choose fewer kinds by --kind",
            field="--pairs",
        )
    situation = Situation.of(place, traffic, policy=policy, seed=seed, options=options)
    run = _Pool(workers)
    survival = analyse(situation, pairs_of(single) if pairs else single, run)
    sequence = None if above is None else worst_sequence(situation, single, above, most=_MOST_IN_SEQUENCE, outcomes=run)
    _show(output, survival_document(survival, above, sequence), rows)


def _live(client: Client, kinds: list[FailureKind], pairs: bool, above: float | None) -> dict[str, Any]:
    """Return the analysis of a running controller, for its present jobs, plan, drains and failures."""
    form = {"kinds": [str(kind) for kind in kinds], "pairs": pairs, "above": above}
    body = json.dumps({name: value for name, value in form.items() if value is not None}).encode()
    document = described(client.request("POST", "plans:survive", body=body).document, *_DOCUMENT)
    for rows in ([document["before"]], document["failures"], document["sequence"] or []):
        described_rows(rows, *_OUTCOME)
    return document


def _show(output: Printer, document: dict[str, Any], rows: int) -> None:
    if not output.is_table:
        output.document(document)
    else:
        _print(output, document, rows)


class _Pool:
    """Function object that computes outcomes in several processes."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def __call__(self, situation: Situation, failures: Sequence[Failure]) -> Iterator[Outcome]:
        from controller.planning.survival import all_at_once, one_by_one

        # A new process takes seconds to load compiled code: a few hundred plans are faster in this process.
        if self._workers == 1 or len(failures) < 500:
            yield from one_by_one(situation, failures)
            return
        from joblib import Parallel, delayed

        chunk = -(-len(failures) // (4 * self._workers))
        pool = Parallel(n_jobs=self._workers, return_as="generator_unordered")
        parts = (failures[i : i + chunk] for i in range(0, len(failures), chunk))
        for outcomes in pool(delayed(all_at_once)(situation, part) for part in parts):
            yield from outcomes


def _print(output: Printer, document: dict[str, Any], rows: int) -> None:
    before, failures = document["before"], document["failures"]
    n_slow = sum(row["min_speed"] < before["min_speed"] - ROUNDING for row in failures)
    output.table(
        f"{plural(len(failures), 'failure')}; {n_slow} slow some job down",
        ("failure", "slowest job>", "slowed jobs>", "cut flows>", "moved flows>"),
        (
            (
                " + ".join(row["names"]),
                number(row["min_speed"]),
                str(sum(_slower(speed, now) for speed, now in zip(row["speeds"], before["speeds"], strict=True))),
                str(row["unroutable"]),
                str(row["moved"]),
            )
            for row in failures[:rows]
        ),
        give_up=("moved flows>", "cut flows>", "slowed jobs>"),
    )
    output.table(
        "jobs",
        ("job", "now>", "worst>", "by", "slowed by>"),
        (
            _job_row(name, before["speeds"][j], [(row["speeds"][j], " + ".join(row["names"])) for row in failures])
            for j, name in enumerate(document["jobs"])
        ),
        shorten=("by",),
    )
    sequence, above = document.get("sequence"), document.get("above")
    if above is None or sequence is None:
        return
    bears_at_most = document["bears_at_most"]
    if bears_at_most is None:
        output.line(f"after {plural(len(sequence), 'failure')}, worst first, every job is still at {above:g} or above")
        return
    output.table(
        f"worst failures one after another; at most {bears_at_most} leave every job at {above:g} or above",
        ("failures>", "last", "slowest job>"),
        ((str(count), row["names"][-1], number(row["min_speed"])) for count, row in enumerate(sequence, start=1)),
        shorten=("last",),
    )


def _slower(speed: float | None, now: float | None) -> bool:
    """Return whether a job is slower than now; one that is not on the network is not."""
    return speed is not None and now is not None and speed < now - ROUNDING


def _job_row(name: str, now: float | None, outcomes: list[tuple[float | None, str]]) -> tuple[str, str, str, str, str]:
    known = [(speed, failure) for speed, failure in outcomes if speed is not None]
    if now is None or not known:
        return name, number(now), "-", "-", "0"
    worst, failure = min(known)
    slowed = sum(_slower(speed, now) for speed, _ in known)
    return name, number(now), number(worst), failure if slowed else "-", str(slowed)
