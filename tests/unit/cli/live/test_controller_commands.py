"""``drain``, ``mode``, ``events``, ``history``, ``preview`` and ``plan --live``, against answers that are laid out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from controller.cli.connection.client import NoAnswer, ServerEvent
from controller.cli.live import events
from controller.cli.live.events import Kind, follow
from controller.cli.live.learning import MEANING as LEARNING_MEANING
from controller.cli.live.learning import LearningName
from controller.cli.live.mode import MEANING, ModeName
from controller.cli.shared.command_error import NOT_POSSIBLE, PARTLY, CommandError
from controller.core.events import EventKind
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import LEARNING
from controller.rest import schemas
from controller.southbound.enforcement.registry import ENFORCEMENTS
from tests.unit.cli.fake_controller import Controller, serving
from tests.unit.cli.live.answers import PREVIEW, drains, mode, thing
from tests.unit.cli.live.plan_document import AT, plan
from tests.unit.cli.running import Run

EXAMPLES = Path(__file__).parents[4] / "examples"


def page(*plans: dict[str, Any], next_before: int | None = None) -> tuple[int, Any]:
    return 200, {"plans": list(plans), "next_before": next_before}


def test_the_names_that_commands_take_are_those_of_the_interface() -> None:
    assert {name.value for name in ModeName} == set(get_args(Mode)) == {name.value for name in MEANING}
    assert {kind.value for kind in Kind} == set(get_args(EventKind))
    assert {name.value for name in LearningName} == set(LEARNING) == {name.value for name in LEARNING_MEANING}


# -- drain ---------------------------------------------------------------------------------------------------------


def test_several_drains_are_one_request_and_say_how_many_flows_moved(run: Run, controller: Controller) -> None:
    controller.lay_out(drains(thing("spine2", True, 5), thing("spine3", True, 5)), mode("planned"))
    code, out, err = run("drain", "spine2", "spine3", "spine2")
    assert (code, err) == (0, "")
    assert out.startswith("drain: plan 5, 7 flows moved\n")
    assert [line.split() for line in out.splitlines()[4:6]] == [
        ["spine2", "spine", "drained", "2", "0"],
        ["spine3", "spine", "drained", "2", "0"],
    ]
    assert controller.asked[0] == (
        *("POST", "/v1/fabric/links:drain"),
        b'{"ids": ["spine2", "spine3"], "drained": true}',
    )


@pytest.mark.parametrize(
    ("still_used", "code", "text"),
    [
        (["leaf1-spine2"], PARTLY, "partly: some cables of spine2 stay in use"),
        (["leaf1-spine2", "leaf2-spine2"], NOT_POSSIBLE, "not possible: all cables of spine2 stay in use"),
    ],
)
def test_a_drain_that_leaves_cables_in_use_has_an_exit_code_of_its_own(
    run: Run, controller: Controller, still_used: list[str], code: int, text: str
) -> None:
    controller.lay_out(drains(thing("spine1", True, 5), thing("spine2", True, 5, still_used)), mode("planned"))
    ended, out, err = run("drain", "spine1", "spine2")
    assert (ended, err) == (code, f"fairspine: {text}, because no other path connects two leaves\n")
    assert out.splitlines()[-1].startswith("still in use because no other path connects two leaves: leaf1-spine2")


def test_what_is_so_already_is_told_as_such(run: Run, controller: Controller) -> None:
    answer = drains(thing("spine2", False), moved=0, changed=[])
    controller.lay_out(answer, mode("planned"), answer, mode("planned"))
    assert "in use before" in run("undrain", "spine2")[1]
    code, out, _ = run("undrain", "spine2", "--format", "json")
    assert (code, json.loads(out)) == (0, answer[1])


def test_a_wrong_id_is_an_error(run: Run, controller: Controller) -> None:
    controller.lay_out((404, {"title": "Not Found", "status": 404, "detail": "no link has the name 'nope'"}))
    assert run("drain", "spine2", "nope") == (1, "", f"fairspine: {controller.url}: no link has the name 'nope'\n")


def test_a_check_changes_nothing_and_has_the_exit_code_of_the_drain(run: Run, controller: Controller) -> None:
    for outcome, code in (("drained", 0), ("partly", PARTLY), ("not possible", NOT_POSSIBLE)):
        row = {"id": "spine2", "outcome": outcome, "cables": ["leaf1-spine2"], "still_used": []}
        controller.lay_out((200, PREVIEW | {"drains": [row]}))
        ended, out, err = run("drain", "spine2", "--check")
        assert ended == code
        assert "would move 12 flows; slowest job 1.000 before, 0.500 after" in out
        assert err == "" or f"{outcome}: " in err
        assert "would stay in use" in err or not code
    assert {path for _, path, _ in controller.asked} == {"/v1/plans:preview"}


def test_a_wait_ends_when_the_switches_have_confirmed_the_plan(run: Run, controller: Controller) -> None:
    health = [(200, {"mode": "planned", "active_epoch": epoch}) for epoch in (None, 4, 5)]
    controller.lay_out(drains(thing("spine2", True, 5)), mode("planned"), *health)
    assert run("drain", "spine2", "--wait")[0] == 0
    assert controller.answers == []
    controller.lay_out(drains(thing("spine2", True, 5)), mode("planned"), health[1])
    code, _, err = run("drain", "spine2", "--wait", "--wait-timeout", "0")
    assert (code, err) == (1, "fairspine: plan 5 is not active on every switch after 0 s\n")
    controller.lay_out(drains(thing("spine2", True, 5)), mode("frozen"), (200, {"mode": "frozen", "active_epoch": 9}))
    assert run("drain", "spine2", "--wait")[0] == 1


@pytest.mark.parametrize("name", ["ecmp", "frozen"])
def test_a_mode_in_which_it_makes_no_difference_yet_is_reported(run: Run, controller: Controller, name: str) -> None:
    controller.lay_out(drains(thing("spine2", True)), mode(name))
    assert run("drain", "spine2")[1].splitlines()[-1] == f"mode {name}: {MEANING[ModeName(name)]}"


# -- mode ----------------------------------------------------------------------------------------------------------


def test_the_mode_is_shown_and_set(run: Run, controller: Controller) -> None:
    controller.lay_out(mode("planned"), mode("frozen"))
    assert "2026-01-02 02:12:00" in run("mode")[1]
    assert run("mode", "frozen")[1].startswith("frozen: the rules on the switches do not change; ")
    assert controller.asked == [("GET", "/v1/mode", b""), ("PUT", "/v1/mode", b'{"mode": "frozen"}')]


@pytest.mark.parametrize("name", ENFORCEMENTS)
def test_the_enforcement_is_set_with_the_mode_or_without(run: Run, controller: Controller, name: str) -> None:
    controller.lay_out(*[(200, mode("planned")[1] | {"enforcement": name})] * 2)
    assert name in run("mode", "--enforcement", name)[1]
    assert name in run("mode", "planned", "--enforcement", name)[1]
    bodies = [json.loads(body) for _, _, body in controller.asked]
    assert bodies == [{"enforcement": name}, {"mode": "planned", "enforcement": name}]


def test_no_other_mode_is_asked_for(run: Run, controller: Controller) -> None:
    assert run("mode", "fast")[0] == 2
    assert controller.asked == []


# -- history ---------------------------------------------------------------------------------------------------------


def test_plans_are_listed_a_row_each_and_older_ones_pointed_to(run: Run, controller: Controller) -> None:
    controller.lay_out(page(plan(9), plan(8, by=None), next_before=8))
    code, out, _ = run("history", "--before", "10", "--limit", "2")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[4:6]] == ["9", "8"]
    assert out.endswith("for older plans: fairspine history --before 8\n")
    assert controller.asked[0][1] == "/v1/plans?limit=2&before=10"


def test_a_plan_is_shown_with_the_spread_of_its_flows(run: Run, controller: Controller) -> None:
    row = {"src": "h1", "dst": "h5", "udp_src": 50000, "share": 1.0}
    paths = [row | {"path": path} for path in ("spine1", "spine2", "spine1")]
    controller.lay_out((200, plan(9) | {"paths": paths}), (200, plan(9) | {"paths": None}))
    out = run("history", "show", "9")[1]
    assert [line.split() for line in out.splitlines()[-3:-1]] == [["spine1", "2"], ["spine2", "1"]]
    assert "jobs: a\nlinks that were down: none\ndrained: spine2\n" in out
    assert run("history", "show", "9")[1].endswith("its paths are not stored\n")


def test_going_back_to_a_plan_is_a_new_plan(run: Run, controller: Controller) -> None:
    controller.lay_out((200, plan(12, rollback_of=7)))
    assert run("history", "rollback", "7")[1].startswith("plan 12: 7 flows moved to their paths of plan 7\n")
    assert controller.asked[0][:2] == ("POST", "/v1/plans/7:rollback")


# -- preview ---------------------------------------------------------------------------------------------------------


STEERED = ["--enforcement", "source_port"]


def test_a_preview_asks_for_all_of_it_at_once(run: Run, controller: Controller) -> None:
    schemas.PreviewDocument.model_validate(PREVIEW)
    controller.lay_out((200, PREVIEW))
    gpt3 = EXAMPLES / "gpt3-a.json"
    arguments = ["--put", str(gpt3), "--delete", "b", "--drain", "spine2", "--drain", "spine3", "--undrain", "leaf1"]
    code, out, _ = run("preview", *arguments, "--policy", "ecmp", "--seed", "0", "--mode", "frozen", *STEERED)
    ((method, path, body),) = controller.asked
    assert (code, method, path) == (0, "POST", "/v1/plans:preview")
    form = schemas.PreviewForm.model_validate_json(body)
    assert form.put == [json.loads(gpt3.read_text())]
    assert (form.delete, form.drain, form.undrain) == (["b"], ["spine2", "spine3"], ["leaf1"])
    assert (form.policy, form.seed, form.mode, form.enforcement) == ("ecmp", 0, "frozen", "source_port")
    assert "about 0.400 (0.250 to 0.500)" in out
    assert "12 flows would move" in out
    assert out.splitlines()[-2].endswith("a/b/9 and 2 more")
    assert out.splitlines()[-1].endswith("connects two leaves: leaf1-spine2")


def test_a_job_that_the_controller_refuses_is_reported_by_its_file(run: Run, controller: Controller) -> None:
    problem = {"title": "bad", "detail": "no such host", "field": "put[1].hosts[3]", "value": "x"}
    controller.lay_out((422, problem))
    files = [str(EXAMPLES / name) for name in ("gpt3-a.json", "llama-b.json")]
    code, out, err = run("preview", "--put", files[0], "--put", files[1])
    assert (code, out) == (2, "")
    assert err == f'fairspine: {files[1]}: {controller.url}: put[1].hosts[3]: "x": no such host\n'


# -- plan --live -------------------------------------------------------------------------------------------------------


def live(**changes: Any) -> dict[str, Any]:
    """Return a ``PlanDocument`` of one flow."""
    links = ["h1->leaf1", "leaf1->spine1:2", "spine1->leaf2", "leaf2->h2"]
    flow = {"id": "a/c/0", "job": "a", "collective": "c", "src": "h1", "dst": "h2", "bytes": 1, "udp_src": 50000}
    made = {
        "policy": "fair",
        "seconds": 0.1,
        "min_speed": 1.0,
        "min_level": 1.0,
        "bound_split": 1.0,
        "bound_single": 1.0,
        "gap": 0.0,
        "levels": [],
        "unroutable": [],
        "collectives": [{"job": "a", "name": "c", "speed": 1, "ideal_seconds": 1, "seconds": 1, "slowdown": 1}],
        "flows": [flow | {"paths": [{"share": 1.0, "links": links}]}],
        "links": [{"id": link, "gbps": 100.0, "load_gbps": 50.0} for link in links],
    }
    document = {
        "mode": "planned",
        "enforcement": "per_flow",
        "computed": {"epoch": 3, "since": AT},
        "active": {"epoch": 3, "since": AT},
    }
    made |= changes.pop("plan", {})
    return schemas.PlanDocument.model_validate(document | changes | {"plan": made}).model_dump(mode="json")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "; active on every switch"),
        ({"active": None}, "; not active on every switch yet"),
        ({"mode": "ecmp"}, "; mode ecmp: no plan is enforced"),
    ],
)
def test_the_live_plan_has_the_tables_of_a_plan(
    run: Run, controller: Controller, changes: dict[str, Any], says: str
) -> None:
    controller.lay_out((200, live(**changes)), (200, {"hosts": [{"name": "h1"}, {"name": "h2"}]}))
    code, out, err = run("plan", "--live")
    assert (code, err) == (0, "")
    assert "plan 3, fair: 1 flow in 1 piece" in out
    assert says in out
    rows = [line.split()[0] for line in out.splitlines() if "->" in line]
    assert rows == ["leaf1->spine1:2", "spine1->leaf2"]


SHIFT = {
    "job": "a",
    "period_seconds": 0.21,
    "shift_seconds": 0.1,
    "hold": True,
    "iteration_seconds": 0.21,
    "compatibility": 0.5,
}


def test_the_schedule_of_all_jobs_and_of_one(run: Run, controller: Controller) -> None:
    whole = {"slowdown": 1.025, "bound": 1.0, "gap": 0.025, "jobs": [SHIFT]}
    controller.lay_out((200, {"epoch": 3, "schedule": whole}), *[(200, {"epoch": 3, "shift": SHIFT})] * 2)
    code, out, _ = run("schedule")
    assert code == 0
    assert "1.025 times as long as alone" in out
    assert "0.100000 s" in out
    code, out, _ = run("schedule", "a")
    assert "0.210000 s" in out
    assert json.loads(run("schedule", "a", "--format", "json")[1])["shift"] == SHIFT
    assert [path for _, path, _ in controller.asked] == ["/v1/schedule", *["/v1/jobs/a/schedule"] * 2]


@pytest.mark.parametrize(("arguments", "field"), [((), "schedule"), (("a",), "shift")])
def test_no_schedule_is_said_in_words(run: Run, controller: Controller, arguments: tuple[str, ...], field: str) -> None:
    controller.lay_out((200, {"epoch": 3, field: None}))
    code, out, _ = run("schedule", *arguments)
    assert (code, out.startswith("no shift is advised")) == (0, True)


def test_the_live_plan_as_json_is_a_plan_to_stay_near(run: Run, controller: Controller, tmp_path: Path) -> None:
    controller.lay_out((200, live()))
    file = tmp_path / "now.json"
    file.write_text(run("plan", "--live", "--format", "json")[1])
    assert json.loads(file.read_text())["computed"]["epoch"] == 3
    files = ["--fabric", str(EXAMPLES / "clos-4x4x4.yaml"), "--job", str(EXAMPLES / "gpt3-a.json")]
    assert run("plan", *files, "--previous", str(file))[0] == 0


def test_unroutable_flows_of_the_live_plan_fail_the_command(run: Run, controller: Controller) -> None:
    controller.lay_out((200, live(plan={"unroutable": ["a/c/0"]})), (200, {"hosts": []}))
    code, out, err = run("plan", "--live")
    assert (code, bool(out)) == (1, True)
    assert err == "fairspine: 1 of 1 flows have no live path, the first is a/c/0\n"


@pytest.mark.parametrize("option", [["--fabric", "x"], ["--job", "x"], ["--seed", "0"], ["--policy", "fair"]])
def test_options_for_files_do_not_go_with_the_live_plan(run: Run, controller: Controller, option: list[str]) -> None:
    code, out, err = run("plan", "--live", *option)
    assert (code, out, controller.asked) == (2, "", [])
    assert err == f"fairspine: {option[0]}: cannot be used with --live\n"


# -- events ------------------------------------------------------------------------------------------------------------


def event(number: int, kind: str = "plan", **data: Any) -> ServerEvent:
    name = f"run-{number}"
    return ServerEvent(name, kind, {"id": name, "at": AT, "kind": kind, "data": data})


class Streams:
    """A client whose streams of events are laid out: what each brings, and what ends it (``None``: it never opens)."""

    url = "http://controller"

    def __init__(self, *streams: tuple[list[ServerEvent] | None, BaseException]) -> None:
        self.streams = list(streams)
        self.asked: list[str | None] = []

    def events(self, after: str | None, *, opened: Callable[[], None]) -> Iterator[ServerEvent]:
        self.asked.append(after)
        brought, end = self.streams.pop(0)
        if brought is not None:
            opened()
            yield from brought
        raise end


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(events, "sleep", waited.append)
    return waited


def followed(client: Any, after: str | None = None) -> tuple[list[str], BaseException]:
    """Return the received ids, and the exception at the end."""
    got: list[str] = []
    with pytest.raises((CommandError, KeyboardInterrupt)) as end:
        got.extend(one.id for one in follow(client, after))
    return got, end.value


def test_a_stream_that_ends_is_taken_up_behind_the_last_event(
    pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    away = (None, NoAnswer("refused"))
    stop = (list[ServerEvent](), KeyboardInterrupt())
    client = Streams(([event(1), event(2)], NoAnswer("it broke")), *[away] * 5, ([event(3)], NoAnswer("again")), stop)
    got, end = followed(client, "run-0")
    assert (got, type(end)) == (["run-1", "run-2", "run-3"], KeyboardInterrupt)
    assert client.asked == ["run-0", *["run-2"] * 6, "run-3"]
    assert pauses == [0.5, 1, 2, 4, 5, 5, 0.5]
    assert capsys.readouterr().err.splitlines() == [
        "fairspine: it broke; trying again",
        "fairspine: http://controller: answers again",
        "fairspine: again; trying again",
        "fairspine: http://controller: answers again",
    ]


def test_a_client_without_a_last_id_is_warned_that_it_may_have_missed_events(
    pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    client = Streams(([], NoAnswer("it broke")), ([], KeyboardInterrupt()))
    assert followed(client)[0] == []
    assert capsys.readouterr().err.endswith("answers again; events of the meantime are not known\n")


@pytest.mark.parametrize(
    "streams",
    [
        [(None, NoAnswer("refused"))],
        [([], NoAnswer("it broke")), (None, CommandError("401"))],
        [([], CommandError("the answer is not understood"))],
    ],
)
def test_a_controller_that_was_never_reached_or_refuses_is_not_asked_again(
    pauses: list[float], streams: list[Any]
) -> None:
    client = Streams(*streams)
    got, end = followed(client)
    assert (got, type(end), client.streams) == ([], type(streams[-1][1]), [])


def stream(*brought: ServerEvent) -> tuple[int, bytes]:
    lines = [f"id: {one.id}\nevent: {one.kind}\ndata: {json.dumps(one.document)}\n\n" for one in brought]
    return 200, "".join(lines).encode()


def test_events_are_a_line_each_and_ctrl_c_ends_well(
    run: Run, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(events, "sleep", interrupted)
    brought = [event(1, epoch=3, gap=0.123456, by=None), event(2, "error", text="a\nb"), event(3, "job", job="a b")]
    controller.lay_out(stream(*brought), stream(*brought))
    code, out, _ = run("events")
    assert code == 0
    assert [line.split("  ", 2)[2] for line in out.splitlines()] == [
        "plan   epoch=3 gap=0.1235",
        "error  a b",
        'job    job="a b"',
    ]
    code, out, _ = run("events", "--format", "json")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (0, [one.document for one in brought])


def test_only_events_of_the_kinds_asked_for_are_shown_and_counted(run: Run, controller: Controller) -> None:
    brought = [event(1, "job"), event(2), event(3, "reset", text="gone"), event(4, "mode"), event(5), event(6)]
    controller.lay_out(stream(*brought))
    code, out, err = run("events", "--kind", "plan", "--kind", "mode", "--count", "3", "--format", "json")
    assert (code, [json.loads(line)["id"] for line in out.splitlines()]) == (0, ["run-2", "run-4", "run-5"])
    assert err == "fairspine: events before the next one are lost\n"


def test_the_first_event_to_see_may_be_named(run: Run, controller: Controller) -> None:
    controller.lay_out(stream(event(8)))
    assert run("events", "--after", "run-7", "--count", "1")[0] == 0
    assert controller.headers[0]["Last-Event-ID"] == "run-7"


# -- all ---------------------------------------------------------------------------------------------------------------

COMMANDS = [
    *(["drain", "spine2"], ["undrain", "spine2"], ["mode"], ["mode", "ecmp"], ["history"], ["history", "show", "3"]),
    *(["history", "rollback", "3"], ["preview"], ["plan", "--live"], ["events"]),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("body", [b"[]", b"null", b"", b"<html>", b'{"plans": [1], "next_before": 1, "plan": 3}'])
def test_an_answer_of_another_shape_is_reported_in_one_line(
    run: Run, controller: Controller, command: list[str], body: bytes
) -> None:
    controller.lay_out((200, body))
    controller.content_type = "application/json"
    code, out, err = run(*command)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("fairspine: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_controller_is_reported_in_one_line(run: Run, command: list[str]) -> None:
    gone = Controller()
    with serving(gone):
        pass
    code, out, err = run(*command, "--url", gone.url)
    assert (code, out, err) == (1, "", f"fairspine: {gone.url}: connection refused; is the controller running?\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_token_is_sent_and_a_wrong_one_reported_without_showing_it(
    run: Run, controller: Controller, command: list[str]
) -> None:
    controller.lay_out((401, {"title": "Unauthorized", "status": 401, "detail": "this token is not known"}))
    code, out, err = run(*command, "--token", "hush")
    assert (code, out) == (1, "")
    assert controller.headers[0]["Authorization"] == "Bearer hush"
    assert "this token is not known" in err
    assert "hush" not in err
