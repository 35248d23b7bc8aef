"""``fairspine learned`` shows what a controller has learned, adopts it, and forgets it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.running import Run

NAME = "learned-1f0a2b3c"
ROW: dict[str, Any] = {
    "name": NAME,
    "hosts": 16,
    "flows": 32,
    "bytes": 48_000_000_000,
    "period_seconds": 0.8125,
    "iterations": 7,
    "confidence": 0.97,
    "planned": True,
    "planned_flows": 32,
    "hashed_speed": 1 / 3,
    "planned_speed": 1.0,
    "seen": "2026-01-02T03:04:05Z",
    "expires": "2026-01-02T03:04:35Z",
    "groups": [
        {"shape": "direct", "phase": 0, "flows": 240, "hosts": 16, "bytes": 100_000_000},
        {"shape": "ring", "phase": 1, "flows": 16, "hosts": 16, "bytes": 1_500_000_000},
    ],
}
UNKNOWN = ROW | {
    "period_seconds": None,
    "planned": False,
    "planned_flows": 0,
    "hashed_speed": None,
    "planned_speed": None,
}
LIST = {"learning": "observe", "qps": 256, "ignored": 3, "jobs": [ROW, UNKNOWN]}
DOCUMENT = {"summary": ROW, "job": {"name": NAME, "flows": []}}


@pytest.mark.parametrize("arguments", [[], ["list"]])
def test_the_list_fits_a_screen_and_has_all_for_programs(
    arguments: list[str],
    run: Run,
    controller: Controller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    controller.lay_out(*[(200, LIST)] * 3)
    code, out, err = run("learned", *arguments)
    assert err == ""
    assert code == 0
    assert "2 learned jobs; 256 QPs seen" in out
    assert NAME in out
    assert "812.5 ms" in out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    assert json.loads(run("learned", *arguments, "--format", "json")[1]) == LIST
    assert yaml.safe_load(run("learned", *arguments, "--format", "yaml")[1]) == LIST
    assert {path for _, path, _ in controller.asked} == {"/v1/learned"}


def test_one_shows_its_groups_and_the_document(run: Run, controller: Controller) -> None:
    controller.lay_out(*[(200, DOCUMENT)] * 2)
    out = run("learned", "show", NAME)[1]
    assert f"{NAME} (planned): every 812.5 ms, confidence 97%, seen 2026-01-02 03:04:05" in out
    assert "speed 0.333 hashed and 1.000 planned" in out
    assert "direct" in out
    assert "1.5 GB" in out
    assert json.loads(run("learned", "show", NAME, "--format", "json")[1]) == DOCUMENT


@pytest.mark.parametrize(
    ("flows", "cell", "title"),
    [(32, " yes ", " (planned): "), (12, " 12 of 32 ", " (12 of 32 flows planned): "), (0, " no ", f"{NAME}: ")],
)
def test_how_many_flows_are_in_the_plan_is_shown(
    flows: int,
    cell: str,
    title: str,
    run: Run,
    controller: Controller,
) -> None:
    row = ROW | {"planned": flows == ROW["flows"], "planned_flows": flows}
    controller.lay_out((200, LIST | {"jobs": [row]}), (200, DOCUMENT | {"summary": row}))
    assert cell in run("learned")[1]
    assert title in run("learned", "show", NAME)[1]


def test_adopting_and_forgetting_name_the_job(run: Run, controller: Controller) -> None:
    controller.lay_out((201, {"epoch": 12}), (204, None))
    assert run("learned", "adopt", NAME)[1] == f"{NAME} created, plan 12\n"
    assert run("learned", "forget", NAME)[1] == f"{NAME} forgotten\n"
    assert [(method, path) for method, path, _ in controller.asked] == [
        ("POST", f"/v1/learned/{NAME}:adopt"),
        ("DELETE", f"/v1/learned/{NAME}"),
    ]


def test_a_controller_that_does_not_learn_is_told(run: Run, controller: Controller) -> None:
    controller.lay_out((200, LIST | {"learning": "off", "jobs": []}))
    assert run("learned")[1] == "learning is off; 'fairspine learning observe' turns it on\n"


@pytest.mark.parametrize("answer", [[], {"learning": "observe", "qps": 1, "jobs": [{"name": "a"}]}])
def test_an_answer_that_is_not_understood_is_an_error(answer: Any, run: Run, controller: Controller) -> None:
    controller.lay_out((200, answer))
    code, _, err = run("learned")
    assert code == 1
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(("learning", "words"), [("off", "no traffic"), ("observe", "not planned"), ("act", "planned")])
def test_what_becomes_of_learned_jobs_is_shown_and_set(
    learning: str,
    words: str,
    run: Run,
    controller: Controller,
) -> None:
    answer = {"learning": learning, "since": "2026-01-02T03:04:05Z", "by": "ops"}
    controller.lay_out(*[(200, answer)] * 3)
    out = run("learning")[1]
    assert out.startswith(f"{learning}: ")
    assert words in out
    assert json.loads(run("learning", "--format", "json")[1]) == answer
    assert run("learning", learning)[1] == out
    assert [(method, path) for method, path, _ in controller.asked] == [
        ("GET", "/v1/learning"),
        ("GET", "/v1/learning"),
        ("PUT", "/v1/learning"),
    ]
    assert json.loads(controller.asked[-1][2] or b"{}") == {"learning": learning}


def test_another_value_is_refused(run: Run) -> None:
    assert run("learning", "guess")[0] == 2
