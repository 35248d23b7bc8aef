"""``fairspine emulate --scenario``: the experiments of a scenario one after the other, and their comparison."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from controller.model.errors import InputError
from controller.whole_file import write_bytes
from emulation import needs
from emulation.errors import LabError
from emulation.evaluation.scenario import load_scenario
from emulation.experiments.agreement import WITHIN, Compared, Ratio, compare, label, ratios
from emulation.experiments.command import COMMAND, run_isolated
from emulation.experiments.from_scenario import experiments_of
from emulation.experiments.request import ExperimentRequest, load
from emulation.experiments.run import prepare
from emulation.experiments.table import time_cell
from emulation.isolated_command import Output
from emulation.readable_table import console_of, table_of

_WIDE = 120


def run_scenario(
    path: Path,
    wanted: ExperimentRequest,
    policies: Sequence[str] | None,
    output: Output,
    run: Callable[[ExperimentRequest, Output], int] = run_isolated,
) -> int:
    """Run all experiments; return 0, or 1 if one failed or disagreed with the simulation, 130 if interrupted.

    Args:
        path: the scenario file.
        wanted: settings of the experiments; ``out`` gets a folder for each of them, and the comparison.
        policies: policies to use instead of the scenario's.
        output: content of standard output.
        run: runs one experiment, and returns its exit status.

    Raises:
        InputError: the scenario is invalid, or too large for one machine, or a file cannot be written.
    """
    scenario = load_scenario(path, policies)
    try:
        experiments, notes = experiments_of(scenario, wanted)
    except InputError as error:
        raise error.with_source(str(path)) from None
    lacking = needs.missing()
    if lacking:
        return COMMAND.complain(lacking)
    for note in (*scenario.notes, *notes):
        print(f"note: {note}", file=sys.stderr)
    try:
        for experiment in experiments:
            experiment.write()
            prepare(load(experiment.request))
    except LabError as error:
        return COMMAND.complain(str(error))
    rows: list[Compared] = []
    failed = False
    for number, experiment in enumerate(experiments, start=1):
        request = experiment.request
        print(
            f"experiment {number} of {len(experiments)}: {experiment.case.name}, failed: {experiment.failure.name}",
            file=sys.stderr,
        )
        status = run(request, "none")
        if status > 1:
            return status
        failed = failed or status != 0
        written = request.out / f"{request.name}.json"
        if status and not written.exists():
            continue
        rows += compare(experiment, json.loads(written.read_text()))
        written.rename(request.folder / "results.json")
        written.with_suffix(".png").rename(request.folder / "results.png")
    compared = ratios(rows)
    _write(wanted.out, rows, compared)
    if output == "json":
        print(json.dumps(_document(rows, compared)))
    elif output == "table":
        _print(rows, compared)
    print(f"wrote {wanted.out / 'agreement.json'} and .csv", file=sys.stderr)
    off = [ratio for ratio in compared if not ratio.agrees]
    for ratio in off:
        COMMAND.complain(
            f"{ratio.case}: {ratio.one} against {ratio.other}: {ratio.measured:.2f} measured, {ratio.simulated:.2f} "
            f"simulated, {ratio.off:+.0%}"
        )
    return 1 if failed or off else 0


def _document(rows: Sequence[Compared], compared: Sequence[Ratio]) -> dict[str, Any]:
    return {
        "times": [asdict(row) for row in rows],
        "ratios": [asdict(ratio) | {"off": ratio.off, "agrees": ratio.agrees} for ratio in compared],
        "within": WITHIN,
    }


def _write(folder: Path, rows: Sequence[Compared], compared: Sequence[Ratio]) -> None:
    document = _document(rows, compared)
    stream = io.StringIO()
    table = csv.writer(stream)
    table.writerow(["case", "failure", "policy", "job", "draw", "simulated_seconds", "measured_seconds"])
    for row in rows:
        for draw, pair in enumerate(zip(row.simulated, row.measured, strict=True)):
            table.writerow([row.case, row.failure, row.policy, row.job, draw, *pair])
    write_bytes(folder / "agreement.json", [f"{json.dumps(document, indent=1)}\n".encode()])
    write_bytes(folder / "agreement.csv", [stream.getvalue().encode()])


def _print(rows: Sequence[Compared], compared: Sequence[Ratio]) -> None:
    console = console_of(_WIDE)
    times = table_of(("case", "policy", "job", "simulated", "measured", "off"), 3)
    for row in rows:
        off = row.mean_measured / row.mean_simulated - 1.0
        times.add_row(row.case, label(row), row.job, time_cell(row.simulated), time_cell(row.measured), f"{off:+.1%}")
    console.print(times)
    pairs = table_of(("case", "time under", "over that under", "simulated", "measured", "off", ""), 3)
    for ratio in compared:
        verdict = "agrees" if ratio.agrees else f"more than {WITHIN:.0%}"
        pairs.add_row(
            ratio.case,
            ratio.one,
            ratio.other,
            f"{ratio.simulated:.2f}",
            f"{ratio.measured:.2f}",
            f"{ratio.off:+.1%}",
            verdict,
        )
    console.print(pairs)
