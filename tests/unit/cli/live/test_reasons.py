"""What commands say of their changes: reasons and conditions, and several jobs at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.job_documents import JOB, SUMMARY
from tests.unit.cli.live.answers import drains, mode, thing
from tests.unit.cli.live.plan_document import plan
from tests.unit.cli.running import Run

JOB_FILE = str(Path(__file__).parents[4] / "examples" / "gpt3-a.json")
REFUSED = (412, {"title": "Precondition Failed", "detail": 'If-Match: the job\'s ETag is "b" now'})


@pytest.mark.parametrize(
    ("answers", "command"),
    [
        ([drains(thing("spine2", True)), mode("planned")], ["drain", "spine2"]),
        ([drains(thing("spine2", False)), mode("planned")], ["undrain", "spine2"]),
        ([mode("ecmp")], ["mode", "ecmp"]),
        ([(201, JOB)], ["push", JOB_FILE]),
        ([(204, b"")], ["jobs", "delete", "gpt3-a"]),
        ([(200, plan(12, rollback_of=7))], ["history", "rollback", "7"]),
        ([(204, b"")], ["learned", "forget", "learned-1"]),
    ],
)
def test_the_reason_of_a_change_goes_with_it_and_with_no_read(
    run: Run, controller: Controller, answers: list[tuple[int, object]], command: list[str]
) -> None:
    controller.lay_out(*answers)
    code, _, err = run(*command, "--reason", "CHG123")
    assert (code, err) == (0, "")
    sent = [
        (method, headers.get("Fairspine-Reason"))
        for (method, _, _), headers in zip(controller.asked, controller.headers, strict=True)
    ]
    assert set(sent) <= {("GET", None), *((method, "CHG123") for method in ("PUT", "POST", "DELETE"))}
    assert [method for method, reason in sent if reason] != []


@pytest.mark.parametrize("reason", ["x" * 201, "caf\xe9", "two\nlines"])
def test_a_reason_that_cannot_be_kept_is_refused_before_anything_is_asked(
    run: Run, controller: Controller, reason: str
) -> None:
    code, _, err = run("drain", "spine2", "--reason", reason)
    assert (code, "--reason" in err, controller.asked) == (2, True, [])


def test_a_push_can_depend_on_a_revision_or_on_a_free_name(run: Run, controller: Controller) -> None:
    controller.lay_out((200, JOB), (201, JOB), REFUSED)
    assert run("push", JOB_FILE, "--if-match", "a")[0] == 0
    assert run("push", JOB_FILE, "--create")[0] == 0
    first, second = controller.headers
    assert (first.get("If-Match"), first.get("If-None-Match")) == ("a", None)
    assert (second.get("If-Match"), second.get("If-None-Match")) == (None, "*")
    assert run("push", JOB_FILE, "--if-match", "a")[0] == 7
    assert run("push", JOB_FILE, "--if-match", "a", "--create")[0] == 2


def test_several_jobs_are_deleted_or_none_if_one_is_not_there(run: Run, controller: Controller) -> None:
    listed = (200, {"jobs": [SUMMARY, SUMMARY | {"name": "b"}]})
    controller.lay_out(listed, (204, b""), (204, b""))
    assert run("jobs", "delete", "gpt3-a", "b", "b") == (0, "gpt3-a deleted\nb deleted\n", "")
    assert [asked[:2] for asked in controller.asked[1:]] == [("DELETE", "/v1/jobs/gpt3-a"), ("DELETE", "/v1/jobs/b")]
    controller.asked.clear()
    controller.lay_out(listed)
    code, out, err = run("jobs", "delete", "gpt3-a", "c", "d")
    assert (code, out, "no such job: c, d" in err) == (1, "", True)
    assert [asked[0] for asked in controller.asked] == ["GET"]
