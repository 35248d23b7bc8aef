"""``fairspine apply`` and ``fairspine diff``, against a controller that keeps what it is sent."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from controller.cli.connection.client import Client, ControllerResponse
from controller.cli.shared.command_error import CommandError
from tests.unit.cli.running import Run


class Kept:
    """A controller in memory: it keeps the bodies of jobs, and refuses a preview or a PUT where a test wants it to."""

    def __init__(self) -> None:
        self.jobs: dict[str, bytes] = {}
        self.refuse_preview = ""
        self.refuse_put = ""
        self.changed: list[str] = []

    def request(self, method: str, *path: str, body: bytes = b"", **conditions: Any) -> ControllerResponse:
        if path == ("jobs",):
            rows = [
                {"name": name, "revision": f"r-{name}", "digest": hashlib.sha256(document).hexdigest()}
                for name, document in self.jobs.items()
            ]
            return ControllerResponse(200, {"jobs": rows})
        if path == ("plans:preview",):
            if self.refuse_preview:
                raise CommandError(self.refuse_preview, exit_code=2)
            names = [row["name"] for row in json.loads(body).get("put", [])]
            return ControllerResponse(
                200, {"moved_count": 3, "jobs": [{"job": name, "before": None, "after": 1.0} for name in names]}
            )
        name = path[1]
        if name == self.refuse_put:
            raise CommandError("the store is full")
        there = name in self.jobs
        assert conditions.get("if_match") == (f'"r-{name}"' if there else None)
        self.changed.append(f"{method} {name}")
        if method == "PUT":
            assert conditions.get("if_none_match") == (None if there else "*")
            self.jobs[name] = body
        else:
            del self.jobs[name]
        return ControllerResponse(200, {})


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    controller = Kept()
    monkeypatch.setattr(Client, "request", lambda _self, *args, **kwargs: controller.request(*args, **kwargs))
    return controller


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "jobs.d"
    made.mkdir()
    for name in ("a", "b"):
        write(made / f"{name}.json", name)
    (made / "README.md").write_text("not a job")
    return made


def write(path: Path, name: str, size: object = 1000) -> None:
    flows = [{"src": "h1", "dst": "h5", "bytes": size}]
    path.write_text(json.dumps({"name": name, "flows": flows}))


def table(out: str) -> dict[str, str]:
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 2 and row[0] in ("a", "b", "old")}


def test_applying_twice_changes_nothing_the_second_time(run: Run, kept: Kept, folder: Path) -> None:
    code, out, err = run("apply", str(folder))
    assert (code, err, table(out)) == (0, "", {"a": "created", "b": "created"})
    assert kept.changed == ["PUT a", "PUT b"]
    kept.changed.clear()
    code, out, _ = run("apply", str(folder))
    assert (code, table(out), kept.changed) == (0, {"a": "unchanged", "b": "unchanged"}, [])
    assert run("diff", str(folder))[0] == 0
    # The same document in another order of keys, and in YAML, is the same job.
    (folder / "a.json").unlink()
    (folder / "a.yaml").write_text("flows: [{bytes: 1000, dst: h5, src: h1}]\nname: a\n")
    assert run("apply", str(folder))[0] == 0
    assert kept.changed == []


def test_a_difference_is_shown_first_and_made_then_and_other_jobs_go_with_prune_only(
    run: Run,
    kept: Kept,
    folder: Path,
) -> None:
    run("apply", str(folder))
    kept.jobs["old"] = b"{}"
    write(folder / "b.json", "b", "1GB")
    kept.changed.clear()
    code, out, err = run("diff", str(folder), "--prune")
    assert (code, err) == (1, "fairspine: 2 jobs would change\n")
    assert table(out.split("would move")[0]) == {"a": "-", "b": "replace", "old": "delete"}
    assert kept.changed == []
    assert table(run("apply", str(folder))[1]) == {"a": "unchanged", "b": "replaced"}
    assert "old" in kept.jobs
    code, out, _ = run("apply", str(folder), "--prune", "--format", "json")
    assert json.loads(out)["jobs"][-1] == {"job": "old", "change": "delete"}
    assert set(kept.jobs) == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"name": "c", "flows": [{"src": "h1"}]}', "c.json: flows[0].dst"),
        ('{"name": "a", "flows": []}', "has this job, too"),
        ("{", "c.json"),
    ],
)
def test_a_wrong_file_changes_nothing(run: Run, kept: Kept, folder: Path, content: str, says: str) -> None:
    (folder / "c.json").write_text(content)
    code, out, err = run("apply", str(folder))
    assert (code, out, kept.changed) == (2, "", [])
    assert says in err
    assert err.count("\n") == 1


def test_what_the_controller_cannot_plan_changes_nothing(run: Run, kept: Kept, folder: Path) -> None:
    kept.refuse_preview = "put[1].flows[0].src: 'h1': no host has this name"
    assert run("apply", str(folder)) == (2, "", f"fairspine: {folder / 'b.json'}: {kept.refuse_preview}\n")
    assert kept.changed == []


def test_a_failure_half_way_says_what_is_done_and_the_next_try_does_the_rest(
    run: Run,
    kept: Kept,
    folder: Path,
) -> None:
    kept.refuse_put = "b"
    assert run("apply", str(folder)) == (1, "", "fairspine: b: the store is full (already done: a)\n")
    kept.refuse_put = ""
    assert table(run("apply", str(folder))[1]) == {"a": "unchanged", "b": "created"}


@pytest.mark.parametrize("files", [[], None])
def test_a_folder_without_jobs_is_refused(run: Run, kept: Kept, tmp_path: Path, files: Any) -> None:
    empty = tmp_path / "empty"
    if files is not None:
        empty.mkdir()
    code, _, err = run("apply", str(empty), "--prune")
    assert (code, kept.changed) == (2, [])
    assert str(empty) in err


@pytest.mark.parametrize("command", ["apply", "diff"])
def test_a_job_that_the_controller_refuses_is_named_by_its_file(
    run: Run, kept: Kept, folder: Path, command: str
) -> None:
    write(folder / "a.json", "z")
    kept.jobs["b"] = b"{}"
    # Jobs are sent by name: b, of which the document differs, and then z of a.json.
    for place, file in (("put[1].hosts[0]", "a.json"), ("put[0].flows[0].dst", "b.json")):
        kept.refuse_preview = f'http://c: {place}: "h9": the fabric has no host of this name'
        code, out, err = run(command, str(folder))
        assert (code, out, kept.changed) == (2, "", [])
        assert err == f"fairspine: {folder / file}: {kept.refuse_preview}\n"
    kept.refuse_preview = 'http://c: enforcement: "srv6": cannot be'
    assert run(command, str(folder)).err == f"fairspine: {kept.refuse_preview}\n"
