"""The whole interface of a real controller, as an operator and a scheduler use it together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.connection.client import Client, ControllerResponse, ServerEvent
from controller.cli.shared.command_error import CommandError
from controller.core.caller import Quota, Role
from controller.rest.security.tokens import new_token
from tests.documented import ROOT
from tests.rig.launcher import refused_by_the_command
from tests.rig.real_controller import controller

JOB = (ROOT / "examples" / "gpt3-a.json").read_bytes()
OTHER = (ROOT / "examples" / "llama-b.json").read_bytes()


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    """A client for each of some token names."""
    folder = tmp_path_factory.mktemp("api")
    made = [new_token(name, Role.WRITE) for name in ("ops", "slurm")]
    made += [new_token("few", Role.WRITE, quota=Quota(jobs=1)), new_token("rare", Role.WRITE, quota=Quota(changes=1))]
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{token.line()}\n" for token, _ in made))
    tokens.chmod(0o600)
    with controller(folder, "--tokens", str(tokens), secret=made[0][1]) as (server, _):
        url = f"http://127.0.0.1:{server.port}"
        yield {token.name: Client(url, token=secret) for token, secret in made}
        for _, secret in made:
            assert secret not in server.log


def get(client: Client, *path: str, **query: str | int) -> Any:
    return client.request("GET", *path, query=query).document


def put(client: Client, *path: str, **members: Any) -> ControllerResponse:
    return client.request("PUT", *path, body=json.dumps(members).encode())


def test_a_job_is_changed_only_as_it_was_read_however_often_the_network_is_planned_anew(
    clients: dict[str, Client],
) -> None:
    slurm, ops = clients["slurm"], clients["ops"]
    made = slurm.request("PUT", "jobs", "gpt3-a", body=JOB, if_none_match="*")
    assert (made.status, made.document["by"]) == (201, "slurm")
    with pytest.raises(CommandError, match="the job exists already"):
        slurm.request("PUT", "jobs", "gpt3-a", body=JOB, if_none_match="*")
    drained = put(ops, "fabric", "links", "spine1", drained=True).document
    assert drained["epoch"] > made.document["epoch"]
    read = slurm.request("GET", "jobs", "gpt3-a")
    # The tag of an answer that was compressed says so, and conditions take either.
    revision = read.document["revision"]
    assert {made.etag, read.etag} <= {f'"{revision}"', f'"{revision}-gzip"'}
    assert read.document["epoch"] == drained["epoch"]
    changed = json.dumps(json.loads(JOB) | {"weight": 2}).encode()
    newer = slurm.request("PUT", "jobs", "gpt3-a", body=changed, if_match=read.etag)
    assert newer.status == 200
    assert newer.etag != read.etag
    for method, body in (("PUT", JOB), ("DELETE", None)):
        with pytest.raises(CommandError, match="If-Match"):
            slurm.request(method, "jobs", "gpt3-a", body=body, if_match=read.etag)
    put(ops, "fabric", "links", "spine1", drained=False)
    assert slurm.request("DELETE", "jobs", "gpt3-a", if_match=newer.etag).status == 204


def test_what_a_drain_would_do_is_what_it_does(clients: dict[str, Client]) -> None:
    ops = clients["ops"]
    ops.request("PUT", "jobs", "gpt3-a", body=JOB)
    before = get(ops, "plan")
    seen = ops.request("POST", "plans:preview", body=b'{"drain": ["spine2"]}').document
    assert get(ops, "plan")["computed"] == before["computed"]
    put(ops, "fabric", "links", "spine2", drained=True)
    after = get(ops, "plan")
    assert seen["before"]["min_speed"] == before["plan"]["min_speed"]
    assert seen["after"]["min_speed"] == after["plan"]["min_speed"]
    used = [link for flow in after["plan"]["flows"] for path in flow["paths"] for link in path["links"]]
    assert used
    assert not any("spine2" in link for link in used)
    summary = get(ops, "plans", limit=1)["plans"][0]
    assert (summary["by"], summary["drained"]) == ("ops", ["spine2"])
    put(ops, "fabric", "links", "spine2", drained=False)


def test_an_old_plan_comes_back_and_both_are_in_the_history(clients: dict[str, Client]) -> None:
    ops = clients["ops"]
    first = ops.request("PUT", "jobs", "gpt3-a", body=json.dumps(json.loads(JOB) | {"weight": 3}).encode()).document
    old = get(ops, "plans", str(first["epoch"]))
    ops.request("PUT", "jobs", "llama-b", body=OTHER)
    back = ops.request("POST", "plans", f"{first['epoch']}:rollback").document
    assert (back["rollback_of"], back["by"]) == (first["epoch"], "ops")
    now = get(ops, "plans", str(back["epoch"]))

    def rows(record: Any) -> set[tuple[Any, ...]]:
        return {(row["src"], row["dst"], row["udp_src"], row["path"]) for row in record["paths"]}

    assert rows(old) <= rows(now)
    epochs = [plan["epoch"] for plan in get(ops, "plans", before=back["epoch"] + 1)["plans"]]
    assert epochs[0] == back["epoch"]
    assert first["epoch"] in epochs
    assert epochs == sorted(epochs, reverse=True)
    with pytest.raises(CommandError, match="no plan"):
        get(ops, "plans", "123456789")


def test_every_mode_is_set_by_one_request_and_shown_everywhere(clients: dict[str, Client]) -> None:
    ops = clients["ops"]
    ops.request("PUT", "jobs", "gpt3-a", body=JOB)
    for mode in ("ecmp", "frozen", "planned"):
        assert put(ops, "mode", mode=mode).document["by"] == "ops"
        assert {get(ops, *path)["mode"] for path in (("mode",), ("plan",))} == {mode}
        pieces = [piece for flow in get(ops, "routes", host="h1")["flows"] for piece in flow["pieces"]]
        if mode == "ecmp":
            assert all(piece["path"] is None for piece in pieces)
    assert any(piece["path"] is not None for piece in pieces)


def test_events_name_the_change_and_its_author_and_resume_after_the_last_id(clients: dict[str, Client]) -> None:
    ops, slurm = clients["ops"], clients["slurm"]
    # An id that nobody knows: everything that is still known comes, after a reset.
    old = ops.events(after="nobody-knows-0")
    assert next(old).kind == "reset"
    last = next(old).id
    old.close()
    slurm.request("PUT", "jobs", "events", body=JOB.replace(b"gpt3-a", b"events"))
    slurm.request("DELETE", "jobs", "events")
    stream = ops.events(after=last)
    seen: list[ServerEvent] = []
    done: list[tuple[str, str]] = []
    while ("deleted", "slurm") not in done:
        seen.append(next(stream))
        data = seen[-1].document["data"]
        if data.get("job") == "events":
            done.append((data["change"], data["by"]))
    stream.close()
    assert done == [("pushed", "slurm"), ("deleted", "slurm")]
    assert "plan" in {event.kind for event in seen}
    resumed = ops.events(after=seen[0].id)
    assert [next(resumed) for _ in seen[1:]] == seen[1:]
    resumed.close()


def test_a_door_that_would_be_open_to_all_keeps_the_controller_from_starting(tmp_path: Path) -> None:
    said = refused_by_the_command("--store", "memory", "--wsapi-host", "0.0.0.0", "controller/app.py")
    assert "wsapi_host" in said
    assert "fairspine token add" in said


def test_a_token_has_no_more_jobs_and_changes_than_its_quota(clients: dict[str, Client]) -> None:
    few, rare = clients["few"], clients["rare"]
    flow = {"src": "h2", "dst": "h6", "bytes": 1000}
    assert get(few, "whoami")["most_jobs"] == 1
    for _ in range(2):
        # Its own job is no further one, however often it is replaced.
        put(few, "jobs", "quota-1", flows=[flow])
        flow = flow | {"bytes": 2000}
    with pytest.raises(CommandError, match="the quota of token few is 1 job, and it has 1"):
        put(few, "jobs", "quota-2", flows=[flow])
    # Another token's job counts for it only from when it replaces it.
    put(clients["ops"], "jobs", "quota-3", flows=[flow])
    with pytest.raises(CommandError, match="the quota of token few is 1 job"):
        put(few, "jobs", "quota-3", flows=[flow | {"bytes": 9}])
    few.request("DELETE", "jobs", "quota-1")
    put(few, "jobs", "quota-3", flows=[flow | {"bytes": 9}])
    rare.request("DELETE", "jobs", "quota-3")
    with pytest.raises(CommandError, match="the quota of token rare is 1 changes a minute"):
        put(rare, "jobs", "quota-4", flows=[flow])
    # Reading is no change.
    assert get(rare, "whoami")["most_changes"] == 1
    assert "quota-4" not in {row["name"] for row in get(rare, "jobs")["jobs"]}
