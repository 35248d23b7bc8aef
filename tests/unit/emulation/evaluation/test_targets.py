from __future__ import annotations

from typing import Any

import pytest

from controller.model.errors import InputError
from emulation.evaluation.targets import PublishedFigure
from emulation.evaluation.verdicts import Verdict, verdicts_of
from tests.unit.emulation.evaluation.small import scenario


def row(policy: str, ratio: float | None, **more: Any) -> dict[str, Any]:
    return {
        "scenario": "s",
        "kind": "files",
        "failure": "none",
        "case": "a",
        "allocation": "flow",
        "policy": policy,
        "ratio": ratio,
        **more,
    }


def target(**more: Any) -> PublishedFigure:
    return PublishedFigure(**{"policy": "fair", "kinds": frozenset(), "at_most": {}, **more})


def reached(verdicts: list[Verdict]) -> list[bool]:
    return [verdict.reached for verdict in verdicts]


def test_a_mean_may_be_as_high_as_is_said_and_the_tolerance_on_top() -> None:
    for high, tolerance, wanted in ((1.2, 0.0, True), (1.21, 0.0, False), (1.21, 0.01, True), (1.2121, 0.01, False)):
        rows = [row("fair", 1.0), row("fair", 2 * high - 1.0, case="b")]
        assert reached(verdicts_of("s", [target(at_most={"none": 1.2}, tolerance=tolerance)], rows)) == [wanted], high


def test_the_better_allocation_counts_as_a_whole() -> None:
    rows = [row("fair", 1.0), row("fair", 2.0, case="b"), row("fair", 1.3, allocation="paced")]
    rows.append(row("fair", 1.3, allocation="paced", case="b"))
    (verdict,) = verdicts_of("s", [target(at_most={"none": 1.3})], rows)
    assert (verdict.measured, verdict.reached) == (1.3, True)


def test_seeds_are_averaged_before_cases() -> None:
    rows = [row("fair", 1.0), *(row("fair", value, case="b") for value in (2.0, 4.0))]
    (verdict,) = verdicts_of("s", [target(at_most={"none": 9.0})], rows)
    assert verdict.measured == 2.0


def test_a_policy_is_held_against_another_in_the_mean_and_case_by_case() -> None:
    goal = target(not_above="greedy", case_tolerance=0.01)
    rows = [row("fair", 1.0), row("fair", 1.5, case="b"), row("greedy", 2.0), row("greedy", 1.4, case="b")]
    assert reached(verdicts_of("s", [goal], rows)) == [True, False]
    rows[1] = row("fair", 1.41, case="b")
    assert reached(verdicts_of("s", [goal], rows)) == [True, True]


def test_below_means_less_and_not_above_does_not() -> None:
    rows = [row("fair", 2.0), row("greedy", 2.0)]
    assert reached(verdicts_of("s", [target(not_above="greedy")], rows)) == [True]
    assert reached(verdicts_of("s", [target(not_above="greedy", below=frozenset({"none"}))], rows)) == [False]


def test_a_job_that_finished_no_epoch_reaches_nothing() -> None:
    goal = target(at_most={"none": 9.0}, not_above="greedy", case_tolerance=0.0)
    verdicts = verdicts_of("s", [goal], [row("fair", None), row("greedy", 2.0)])
    assert reached(verdicts) == [False] * 3
    assert {verdict.measured for verdict in verdicts} == {None}


def test_what_was_not_simulated_is_not_judged() -> None:
    goal = target(at_most={"1 spine": 1.0}, not_above="greedy", kinds=frozenset({"files"}))
    assert not verdicts_of("s", [goal], [row("fair", 1.0)])
    assert not verdicts_of("s", [goal], [row("fair", 1.0, failure="1 spine", kind="jobs")])
    assert not verdicts_of("t", [goal], [row("fair", 1.0, failure="1 spine")])


def test_a_scenario_has_references_and_targets_of_its_own_policies_and_failures() -> None:
    made = scenario(
        references=[{"name": "theirs", "source": "a paper", "ratio": {"none": 1.1}}],
        targets=[{"policy": "fair", "at_most": {"none": 1.0}, "kinds": ["collective"]}],
    )
    assert made.references[0].ratio == {"none": 1.1}
    assert made.targets == (target(at_most={"none": 1.0}, kinds=frozenset({"collective"})),)


@pytest.mark.parametrize(
    ("wrong", "field", "reason"),
    [
        ({"targets": [{"policy": "fare", "at_most": {"none": 1}}]}, "targets[0].policy", "has ecmp, fair"),
        ({"targets": [{"policy": "fair", "at_most": {"1 spin": 1}}]}, "targets[0].at_most", "has none"),
        ({"targets": [{"policy": "fair", "not_above": "greedy"}]}, "targets[0].not_above", "has ecmp, fair"),
        ({"targets": [{"policy": "fair"}]}, "targets[0]", "'at_most' or 'not_above'"),
        ({"targets": [{"policy": "fair", "at_most": {"none": 1}, "below": ["none"]}]}, "targets[0]", "require"),
        (
            {"targets": [{"policy": "fair", "at_most": {"none": 1}, "kinds": ["files"]}]},
            "targets[0].kinds",
            "has collective",
        ),
        (
            {"references": [{"name": "a", "source": "b", "ratio": {"2 spines": 1}}]},
            "references[0].ratio",
            "has none",
        ),
        ({"references": [{"name": "a", "ratio": {"none": 1}}]}, "references[0].source", "required"),
    ],
)
def test_a_target_that_nothing_could_be_judged_by_is_refused(wrong: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(InputError) as told:
        scenario(**wrong)
    assert told.value.field == field
    assert reason in told.value.reason
