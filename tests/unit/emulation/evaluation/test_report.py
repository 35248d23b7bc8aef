from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from controller.model.errors import InputError
from emulation.evaluation.plots import plot_paper_axes
from emulation.evaluation.report import write_report
from emulation.evaluation.standings import rows_csv, standings_csv, standings_of
from emulation.evaluation.targets import Reference
from emulation.evaluation.verdicts import Verdict
from tests.unit.emulation.evaluation.report_rows import row


def test_seeds_are_averaged_before_cases_so_that_more_draws_have_no_more_say() -> None:
    rows = [row(ratio=1.0), *(row(case="b", seed=seed, ratio=2.0 + seed) for seed in (0, 1, 2))]
    (standing,) = standings_of(rows)
    assert (standing.ratio, standing.cases) == (2.0, 2)
    assert standing.ratio_worst == 1.5
    assert (standing.fct_50, standing.fct_99) == (0.5, 0.99)


def test_iterations_are_held_against_those_of_spray_case_by_case_paced_if_that_is_there() -> None:
    paced = {"policy": "spray", "allocation": "paced"}
    rows = [
        row(iteration=1.2),
        row(case="b", iteration=1.5),
        row(policy="spray", iteration=9.0),
        row(**paced, iteration=1.0),
        row(**paced, case="b", iteration=1.25),
    ]
    assert standings_of(rows)[0].iteration_spray == pytest.approx(1.2)
    assert standings_of([row()])[0].iteration_spray is None


def test_the_99th_percentile_is_held_against_that_of_spray_and_slowdowns_against_their_bound() -> None:
    rows = [
        row(iteration_99=1.8),
        row(policy="spray", iteration_99=1.5),
        row(case="b", policy="late", iteration_99=2.0),
    ]
    standings = {standing.policy: standing for standing in standings_of(rows)}
    assert standings["fair"].iteration_99_spray == pytest.approx(1.2)
    assert standings["late"].iteration_99_spray is None, "spray was not simulated in this case"
    assert standings["fair"].iteration_bound == 1.25
    assert standings_of([row(), row(case="b", iteration_bound=None)])[0].iteration_bound is None


def test_kinds_policies_and_failures_stand_by_themselves() -> None:
    rows = [row(), row(kind="generated"), row(policy="ecmp"), row(failure="1 spine"), row(scenario="t")]
    standings = standings_of(rows)
    assert len(standings) == 5
    assert [standing.scenario for standing in standings] == ["s"] * 4 + ["t"]


def test_the_allocation_is_part_of_the_name_where_a_policy_has_several() -> None:
    rows = [row(), row(policy="fair+split"), row(policy="fair+split", allocation="paced")]
    assert [standing.policy for standing in standings_of(rows)] == ["fair", "fair+split, flow", "fair+split, paced"]


def test_a_mean_over_cases_of_which_one_has_no_result_is_not_reported() -> None:
    (standing,) = standings_of([row(), row(case="b", ratio=None, ratio_worst=None)])
    assert (standing.ratio, standing.ratio_worst) == (None, None)


def test_the_tables_are_csv_with_a_line_for_each(tmp_path: Path) -> None:
    rows = [row(), row(policy="ecmp", ratio=None)]
    lines = list(csv.DictReader(rows_csv(rows).splitlines()))
    assert [line["policy"] for line in lines] == ["fair", "ecmp"]
    assert (lines[0]["fct_99"], lines[0]["ratio"], lines[1]["ratio"]) == ("0.99", "1.0", "")
    lines = list(csv.DictReader(standings_csv(standings_of(rows)).splitlines()))
    assert [float(line["planning_worst"]) for line in lines] == [0.002, 0.002]


def test_the_report_is_one_file_without_external_resources(tmp_path: Path) -> None:
    rows = [row(), row(policy="ecmp", ratio=3.25, ratio_worst=4.0), row(failure="1 spine", ratio=1.032)]
    page = write_report(tmp_path / "out", rows, ["cases[0] is <left> out"])
    text = page.read_text()
    for wanted in (
        "1.000 (1.500)",
        "3.250 (4.000)",
        "1.032 (1.500)",
        "1.750",
        "25.0 / 50.0",
        "failed: 1 spine",
        "&lt;left&gt;",
    ):
        assert wanted in text, wanted
    assert not re.search(r"https?:|//[a-z]|<script|<link|@import|url\(", re.sub(r"base64,[^\"]*", "", text))
    assert set(re.findall(r'src="([^,"]*)', text)) == {"data:image/png;base64"}
    assert {path.name for path in page.parent.iterdir()} == {"index.html", "standings.csv", "cells.csv", "targets.csv"}


def test_rings_and_jobs_of_several_sizes_are_drawn_as_in_the_paper(tmp_path: Path) -> None:
    grid = [
        row(jobs=jobs, ring=ring, case=f"{jobs} {ring}", policy=policy, failure=failure, ratio=ratio)
        for jobs in (1, 3)
        for ring in (2, 4)
        for failure in ("none", "1 spine")
        for policy, ratio in (("fair", 1.0), ("ecmp", None if failure == "1 spine" else 2.0))
    ]
    assert write_report(tmp_path, grid).read_text().count("data:image/png") == 2
    assert plot_paper_axes([row(), row(policy="ecmp")]) is None
    assert write_report(tmp_path, [row(), row(policy="ecmp")]).read_text().count("data:image/png") == 1


def test_figures_of_others_stand_below_ours_with_their_source_and_targets_are_judged(tmp_path: Path) -> None:
    other = Reference("theirs <a>", "a paper", frozenset({"files"}), {"none": 1.106}, {"none": 1.874})
    verdict = Verdict("s", "files", "none", "fair, mean", 1.25, 1.01, False)
    text = write_report(tmp_path, [row()], references={"s": [other], "t": [other]}, verdicts=[verdict]).read_text()
    for wanted in (
        "<td>theirs &lt;a&gt;</td><td>1.106 (1.874)</td>",
        "a paper",
        "<td>1.2500</td><td>1.0100</td><td>no",
    ):
        assert wanted in text, wanted
    assert "1.106" not in write_report(tmp_path, [row(kind="jobs")], references={"s": [other]}).read_text()
    write_report(tmp_path, [row()], verdicts=[verdict])
    (line,) = csv.DictReader((tmp_path / "targets.csv").read_text().splitlines())
    assert (line["measured"], line["reached"]) == ("1.25", "False")


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/out: cannot be written: Not a directory"):
        write_report(tmp_path / "file" / "out", [row()])
