"""Commands with the URLs of several replicas of a cluster, and ``fairspine cluster``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.connection.client import NO_LEADER, Client, NoAnswer, split_urls
from controller.cli.connection.config_file import config_file, has_urls, read_config
from controller.cli.connection.remote import Remote
from controller.cli.shared.command_error import CommandError
from controller.model.errors import InputError
from controller.rest import problems
from tests.unit.cli.connection.listeners import listener
from tests.unit.cli.fake_controller import Controller, serving
from tests.unit.cli.running import Run

GONE = "http://127.0.0.1:1"
"""Nobody listens there."""

LEADERLESS = (503, {"type": NO_LEADER, "title": "t", "detail": "the cluster has no leader now"})


def replica(url: str, *, works: bool = True, leads: bool = False) -> dict[str, Any]:
    heard = "2026-01-02T03:01:00Z"
    return {"url": url, "version": "1", "live": works, "leads": leads, "this": False, "heard": heard, "switches": 8}


STATUS = {
    "name": "lab",
    "role": "follower",
    "term": 3,
    "leader": "http://b:8080",
    "since": "2026-01-02T03:00:00Z",
    "replicas": [replica("http://a:8080", works=False), replica("http://b:8080", leads=True)],
}


@pytest.fixture
def replicas() -> Iterator[list[Controller]]:
    both = [Controller(), Controller()]
    with ExitStack() as stack:
        for each in both:
            stack.enter_context(serving(each))
        yield both


def urls(*parts: str | Controller) -> str:
    return ",".join(part if isinstance(part, str) else part.url for part in parts)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_the_next_replica_is_asked_if_one_is_gone_and_the_one_that_answered_is_asked_first(
    replicas: list[Controller], method: str
) -> None:
    one, other = replicas
    other.lay_out((200, {"n": 1}), (200, {"n": 2}))
    client = Client(urls(GONE, other, one), token="secret")
    assert client.request(method, "plan").document == {"n": 1}
    assert client.url == other.url
    assert client.request(method, "plan").document == {"n": 2}
    assert one.asked == []
    assert other.headers[0]["Authorization"] == "Bearer secret"


def test_a_change_goes_on_to_the_next_replica_from_one_that_knows_no_leader(replicas: list[Controller]) -> None:
    one, other = replicas
    one.lay_out(LEADERLESS)
    other.lay_out((201, {}))
    assert Client(urls(one, other)).request("PUT", "jobs", "a", body=b"{}").status == 201
    assert [asked[:2] for asked in one.asked + other.asked] == [("PUT", "/v1/jobs/a")] * 2


def test_no_other_replica_is_asked_if_one_refuses_or_may_have_made_the_change(replicas: list[Controller]) -> None:
    one, other = replicas
    one.lay_out((409, {"title": "Conflict", "detail": "no"}), (503, {"title": "t", "detail": "the store hangs"}))
    client = Client(urls(one, other))
    for says in ("no", "the store hangs"):
        with pytest.raises(CommandError, match=says):
            client.request("PUT", "jobs", "a", body=b"{}")
    with listener(b"") as (breaks, _), pytest.raises(NoAnswer, match="may have been carried out, or not"):
        Client(urls(breaks, other)).request("DELETE", "jobs", "a")
    assert other.asked == []
    with listener(b"") as (breaks, _):
        other.lay_out((200, {}))
        assert Client(urls(breaks, other)).request("GET", "plan").document == {}


def test_the_failures_of_all_replicas_are_one_line(replicas: list[Controller]) -> None:
    replicas[0].lay_out(LEADERLESS)
    with pytest.raises(NoAnswer) as caught:
        Client(urls(replicas[0], GONE)).request("GET", "plan")
    assert str(caught.value) == (
        f"{replicas[0].url}: the cluster has no leader now; {GONE}: connection refused; is the controller running?"
    )
    assert NO_LEADER == problems.NO_LEADER


@pytest.mark.parametrize("text", ["", ",", "http://a,ftp://b", "http://a,http://me:hunter2@b"])
def test_each_url_is_checked(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Client(text)
    assert caught.value.field == "--url"
    assert "hunter2" not in str(caught.value)


URL_SETS = st.lists(st.sampled_from(["http://a", "http://b:1", "https://c/x"]), min_size=1)


@given(URL_SETS, URL_SETS)
def test_settings_are_used_only_if_they_have_every_url(known: list[str], asked: list[str]) -> None:
    assert has_urls(", ".join(known), ",".join(f"{url}/" for url in asked)) == (set(asked) <= set(known))
    assert split_urls(", ".join(known)) == list(dict.fromkeys(known))


def test_a_token_goes_to_the_replicas_that_it_was_given_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config_file().parent.mkdir()
    config_file().write_text('[contexts.prod]\nurl = ["http://a", "http://b"]\ntoken = "kept"\n')
    config_file().chmod(0o600)
    assert read_config().contexts["prod"].url == "http://a,http://b"
    assert Remote(context="prod").client()._token == "kept"
    assert Remote("http://b").client()._token == "kept"
    assert Remote("http://b,http://evil").client()._token is None
    monkeypatch.setenv("FAIRSPINE_URL", "http://x,http://y")
    monkeypatch.setenv("FAIRSPINE_TOKEN", "said")
    assert list(Remote().client()._prefixes) == ["http://x", "http://y"]
    assert Remote("http://y").client()._token == "said"
    assert Remote("http://z").client()._token is None


def test_while_nobody_leads_a_follower_is_asked_for_what_it_knows(
    replicas: list[Controller],
    run: Run,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, other = replicas
    one.lay_out(LEADERLESS, (200, {"jobs": [], "times": None}))
    other.lay_out(LEADERLESS)
    code, _, errors = run("jobs", "--url", urls(one, other))
    assert code == 0
    assert "note: " in errors
    assert "the cluster has no leader now; what follows is what" in errors
    assert [each.get("Fairspine-At-Least") for each in (*one.headers, *other.headers)] == [None, "0-0", None, "0-0"]


def test_a_change_is_not_sent_to_a_follower(replicas: list[Controller], run: Run) -> None:
    one, other = replicas
    one.lay_out(LEADERLESS)
    other.lay_out(LEADERLESS)
    code, _, errors = run("jobs", "delete", "a", "--url", urls(one, other))
    assert (code, len(one.asked), len(other.asked)) == (1, 1, 1)
    assert "the cluster has no leader now" in errors


@pytest.mark.parametrize("value", ["[]", "[7]", "['']"])
def test_a_list_without_urls_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config_file().parent.mkdir()
    config_file().write_text(f"url = {value}")
    with pytest.raises(InputError, match="url: must be text, or a list of texts"):
        read_config()


def test_the_replicas_are_listed_with_the_leader(replicas: list[Controller], run: Run) -> None:
    replicas[0].lay_out((200, STATUS), (200, STATUS))
    code, out, _ = run("cluster", "status", "--url", replicas[0].url)
    assert code == 0
    assert "cluster lab, 2 replicas, term 3: http://b:8080 leads since 2026-01-02 03:00:00" in out
    rows = [line.split()[:3] for line in out.splitlines() if line.lstrip(" *").startswith("http://")]
    assert rows == [["http://a:8080", "missing", "8"], ["*", "http://b:8080", "works"]]
    assert json.loads(run("cluster", "status", "--url", replicas[0].url, "--format", "json")[1]) == STATUS


def test_a_controller_in_no_cluster_says_so(replicas: list[Controller], run: Run) -> None:
    alone = {"name": None, "role": "single", "term": 0, "leader": None, "since": None, "replicas": []}
    replicas[0].lay_out((200, alone))
    assert run("cluster", "status", "--url", replicas[0].url)[1] == "this controller is in no cluster\n"


def test_the_leader_is_asked_to_step_down(replicas: list[Controller], run: Run) -> None:
    one, other = replicas
    one.lay_out(LEADERLESS)
    other.lay_out((204, b""))
    code, out, _ = run("cluster", "step-down", "--url", urls(one, other))
    assert (code, out.startswith("the leader steps down")) == (0, True)
    assert other.asked[0][:2] == ("POST", "/v1/cluster:step-down")
