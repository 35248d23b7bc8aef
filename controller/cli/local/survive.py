"""``fairspine survive``: the effect of each failure on each job's speed, from files, without a network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.local.planning import (
    FabricOption,
    HeadroomOption,
    JobOption,
    OptionsOption,
    PolicyOption,
    SeedOption,
    load_traffic,
)
from controller.cli.shared.output import Printer, number, plural
from controller.model.choices.failure_kind import FailureKind
from controller.model.errors import InputError
from controller.model.tolerances import ROUNDING

if TYPE_CHECKING:
    from controller.planning.survival import Failure, Outcome, Situation, Survival

_MOST_FAILURES = 100_000
_MOST_IN_SEQUENCE = 16
_ROWS = 10


def survive(
    fabric: FabricOption,
    job: JobOption,
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
    *,
    output: Printer,
) -> None:
    """Make a new plan for each single failure, and show the resulting speed of each job.

    The speed of a job is that of its slowest collective; 1 is the time that the collective takes alone on the fabric
    without failures. Failures of leaves and host links are not simulated: hosts with one port would have no path under
    any plan.
    """
    from controller.planning.headroom import with_headroom
    from controller.planning.survival import Situation, single_failures, worst_sequence
    from controller.planning.survival import pairs as pairs_of
    from controller.planning.survival import survive as analyse
    from controller.planning.survival_document import survival_document
    from controller.routing import POLICIES
    from controller.routing.options_text import parse_options

    options = parse_options(option)
    place, traffic = load_traffic(fabric, job)
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
    if not output.is_table:
        output.document(survival_document(survival, above, sequence))
    else:
        _print(output, survival, above, sequence, rows)


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


def _print(output: Printer, survival: Survival, above: float | None, sequence: list[Outcome] | None, rows: int) -> None:
    output.table(
        f"{plural(len(survival.outcomes), 'failure')}; "
        f"{survival.below(survival.before.min_speed - ROUNDING)} slow some job down",
        ("failure", "slowest job>", "slowed jobs>", "cut flows>", "moved flows>"),
        (
            (
                str(outcome.failure),
                number(outcome.min_speed),
                str(int((outcome.speed < survival.before.speed - ROUNDING).sum())),
                str(outcome.unroutable),
                str(outcome.moved),
            )
            for outcome in survival.outcomes[:rows]
        ),
        give_up=("moved flows>", "cut flows>", "slowed jobs>"),
    )
    output.table(
        "jobs",
        ("job", "now>", "worst>", "by", "slowed by>"),
        (
            _job_row(
                name, float(survival.before.speed[j]), [(float(o.speed[j]), str(o.failure)) for o in survival.outcomes]
            )
            for j, name in enumerate(survival.jobs)
        ),
        shorten=("by",),
    )
    if above is None or sequence is None:
        return
    from controller.planning.survival_document import bears

    bears_at_most = bears(above, sequence)
    if bears_at_most is None:
        output.line(f"after {plural(len(sequence), 'failure')}, worst first, every job is still at {above:g} or above")
        return
    output.table(
        f"worst failures one after another; at most {bears_at_most} leave every job at {above:g} or above",
        ("failures>", "last", "slowest job>"),
        (
            (str(count), outcome.failure.names[-1], number(outcome.min_speed))
            for count, outcome in enumerate(sequence, start=1)
        ),
        shorten=("last",),
    )


def _job_row(name: str, now: float, outcomes: list[tuple[float, str]]) -> tuple[str, str, str, str, str]:
    if now != now or not outcomes:
        return name, "-" if now != now else number(now), "-", "-", "0"
    worst, failure = min(outcomes)
    slowed = sum(speed < now - ROUNDING for speed, _ in outcomes)
    return name, number(now), number(worst), failure if slowed else "-", str(slowed)
