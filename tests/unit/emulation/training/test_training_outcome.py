"""What was measured of training is summed up as it was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.training.learned_jobs import JobLearning, compare
from emulation.training.training_outcome import LESS, MORE, TARGET, JobSteps, LaunchMeasured, TrainingOutcome
from emulation.training.training_picture import draw
from emulation.training.training_request import TrainingRequest, load
from emulation.training.training_table import cells, learned_lines, verdict_line
from tests.documented import ROOT

PLANNED = {"leaf1->spine1": 10e6, "leaf2->spine2": 10e6}
LOSSES = (0.8, 0.5, 0.4, 0.3)
steps = st.lists(st.floats(0.01, 100), min_size=3, max_size=9)


def launch(policy: str, number: int, seconds: float, planned: dict[str, float] | None = None) -> LaunchMeasured:
    jobs = tuple(JobSteps(name, (9.0, seconds, seconds, 0.1), LOSSES, (1, 2)) for name in ("gpt3-a", "llama-b"))
    sent = {"leaf1->spine1": 10_200_000, "leaf2->spine2": 10_200_000, "leaf2->spine1": 100_000}
    return LaunchMeasured(policy, number, jobs, sent, planned, 5.0)


def outcome(folder: Path, *launches: LaunchMeasured, expect_faster: bool = False, learn: str = "") -> TrainingOutcome:
    script = folder / "train.py"
    script.touch()
    jobs = tuple(ROOT / f"examples/training/{name}.json" for name in ("gpt3-a", "llama-b"))
    request = TrainingRequest(
        ROOT / "examples/clos-4x4x4.yaml", jobs, (str(script),), steps=8, expect_faster=expect_faster, learn=learn
    )
    return TrainingOutcome(load(request), launches, 60.0)


@given(steps, st.data())
def test_the_time_of_a_step_is_the_median_of_those_in_which_all_jobs_trained(
    seconds: list[float], data: st.DataObject
) -> None:
    together = data.draw(st.sets(st.integers(1, len(seconds) - 1), min_size=1).map(sorted))
    own = sorted(seconds[step] for step in together)
    job = JobSteps("a", tuple(seconds), tuple(seconds), tuple(together))
    assert own[(len(own) - 1) // 2] <= job.step_seconds <= own[len(own) // 2]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9))
def test_half_the_loss_is_reached_at_the_first_step_below_it(losses: list[float]) -> None:
    job = JobSteps("a", (1.0,) * len(losses), tuple(losses), ())
    reached = [number for number, loss in enumerate(losses) if loss <= TARGET * losses[0]]
    assert job.steps_to_target == (reached[0] if reached else None)
    assert job.seconds_to_target == (reached[0] if reached else None)


@given(st.floats(0.0, 2.0))
def test_a_link_is_off_plan_where_it_carried_clearly_less_or_more(part: float) -> None:
    count = int(part * 10e6)
    done = replace(launch("fair", 1, 1.0, PLANNED), sent={"leaf1->spine1": count})
    # A twentieth of the largest flow may be there besides.
    assert (done.off_plan() == []) == (LESS * 10e6 <= count <= MORE * 10e6 + 0.05 * 10e6)
    assert replace(done, planned=None).off_plan() == []


def test_speed_ups_and_ranges_are_those_of_launches(tmp_path: Path) -> None:
    done = outcome(tmp_path, launch("ecmp", 1, 2.0), launch("ecmp", 2, 4.0), launch("fair", 1, 1.5, PLANNED))
    ecmp, fair = done.standings[:2]
    assert (ecmp.seconds, ecmp.speed_up, fair.seconds, fair.speed_up) == ((2.0, 4.0), 1.0, (1.5,), 2.0)
    assert fair.losses_equal
    assert fair.uplinks == (12_500, 1_275_000)
    assert cells(fair) == ["gpt3-a", "fair", "1.50 s", "1.40 s", "2.00", "0.01 to 1.27", "0.3000", "2 steps, 10.5 s"]
    assert "losses equal: 4 of 4 rows; links that carried the bytes of the plan: 3 of 3" in verdict_line(done)
    assert done.failures() == []
    draw(done, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_launch_with_more_steps_is_compared_in_those_of_the_first_launch(tmp_path: Path) -> None:
    more = launch("learned", 1, 1.0, PLANNED)
    jobs = tuple(replace(job, losses=(*job.losses, 0.2)) for job in more.jobs)
    first = launch("ecmp", 1, 2.0), launch("fair", 1, 1.0, PLANNED)
    done = outcome(tmp_path, *first, replace(more, jobs=jobs), learn="host")
    assert all(row.losses_equal and row.last_loss == LOSSES[-1] for row in done.standings)
    other = replace(jobs[0], losses=(0.8, 0.5, 0.41, *jobs[0].losses[3:]))
    done = outcome(tmp_path, *first, replace(more, jobs=(other, jobs[1])), learn="host")
    assert done.failures() == ["gpt3-a: losses under learned are not those of the first launch"]


def test_other_losses_other_links_and_slower_steps_are_failures(tmp_path: Path) -> None:
    slow = launch("fair", 1, 2.5, PLANNED | {"leaf3->spine3": 10e6, "leaf2->spine1": 9e6})
    first = replace(slow.jobs[0], losses=(0.8, 0.5, 0.4, 0.31))
    done = outcome(tmp_path, launch("ecmp", 1, 2.0), replace(slow, jobs=(first, slow.jobs[1])), expect_faster=True)
    assert done.failures() == [
        "gpt3-a: losses under fair are not those of the first launch",
        "fair, launch 1: leaf2->spine1 carried 0.1 MB, planned 9.0 MB",
        "gpt3-a is not faster under fair: 2.50 s a step",
        "llama-b is not faster under fair: 2.50 s a step",
    ]
    assert done.document()["failures"] == done.failures()


def test_a_learned_job_is_shown_beside_pushed_ones_and_one_that_is_not_whole_is_a_failure(tmp_path: Path) -> None:
    whole, half = JobLearning("gpt3-a", 4, 1.0, 1.0, 0.001), JobLearning("llama-b", 0, 0.5, 1.0, 0.0)
    own = {"leaf1->spine1": 15e6, "leaf2->spine2": 10.2e6}
    learned = replace(
        launch("learned", 1, 1.0, own), uncertain={"leaf1->spine1": 5e6}, learned=(whole, half), counted_steps=2.0
    )
    done = outcome(tmp_path, launch("ecmp", 1, 2.0), launch("fair", 1, 1.0, PLANNED), learned, learn="host")
    assert [row.policy for row in done.standings] == ["ecmp", "fair", "learned"] * 2
    assert done.uplink_bytes(learned)["leaf1->spine1"] == 10_200_000 / 2
    assert learned_lines(done) == [f"learned: {job.in_words}" for job in (whole, half)]
    assert done.failures() == [f"learned: {half.in_words}"]


edges = st.dictionaries(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.integers(1, 10**9), min_size=1)


@given(sent=edges, data=st.data())
def test_a_job_is_learned_whole_where_all_of_its_edges_and_no_others_are(
    sent: dict[tuple[int, int], int], data: st.DataObject
) -> None:
    own = {(f"h{a}", f"h{b}"): float(size) for (a, b), size in sent.items()}
    kept = data.draw(st.sets(st.sampled_from(sorted(own))))
    strange = data.draw(st.sets(st.integers(10, 19)))
    off = data.draw(st.floats(0.5, 2.0))
    rows = [{"src": a, "dst": b, "bytes": own[a, b] * off} for a, b in kept]
    rows += [{"src": f"h{a}", "dst": "h0", "bytes": 1.0} for a in strange]
    job = compare("a", own, [{"job": {"flows": rows}}, {"job": {"flows": [{"src": "x", "dst": "y", "bytes": 1}]}}], 3)
    assert job.recall == len(kept) / len(own)
    assert job.is_whole == (kept == own.keys() and not strange)
    if kept:
        assert job.precision == len(kept) / (len(kept) + len(strange))
        assert job.bytes_off == pytest.approx(abs(off - 1), abs=1e-9)


def test_scripts_that_say_no_loss_are_compared_by_time_alone(tmp_path: Path) -> None:
    job = JobSteps("a", (1.0, 1.0), (None, None), (1,))
    assert job.steps_to_target is None
    quiet = launch("fair", 1, 1.0, PLANNED)
    quiet = replace(quiet, jobs=tuple(replace(each, losses=(None,) * 4) for each in quiet.jobs))
    done = outcome(tmp_path, launch("ecmp", 1, 1.0), quiet)
    assert cells(done.standings[1])[-2:] == ["-", "-"]


def test_a_job_without_steps_beside_others_has_the_time_of_its_own() -> None:
    assert JobSteps("a", (9.0, 1.0, 3.0), (None,) * 3, ()).step_seconds == pytest.approx(2.0)
