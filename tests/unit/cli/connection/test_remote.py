"""Selection of the controller and the token that a command uses."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import unquote

import pytest

from controller.cli.connection.client import Client, NoAnswer, ServerEvent
from controller.cli.connection.config_file import DEFAULT_URL, Config, ConnectionSettings, config_file, read_config
from controller.cli.connection.remote import Remote
from controller.cli.shared.command_error import CommandError
from controller.model.errors import InputError
from tests.unit.cli.connection.listeners import listener


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config_file().parent.mkdir()
    return config_file()


def keep(config: Path, text: str) -> None:
    config.write_text(text)
    config.chmod(0o600)


OK = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: "r1"\r\n\r\n{}'


def test_no_config_file_says_nothing_and_the_controller_of_this_machine_is_meant(config: Path) -> None:
    assert read_config() == Config(ConnectionSettings(), {})
    assert Remote().client().url == DEFAULT_URL


def test_the_token_of_the_config_file_goes_to_its_own_controller_alone(config: Path) -> None:
    for named, sent in ((None, True), ("http://127.0.0.1:1", False)):
        with listener(OK) as (url, got):
            keep(config, f'url = "{url if named is None else named}"\ntoken = "kept"\n')
            Remote(None if named is None else url).client().request("GET", "plan")
            assert (b"Authorization: Bearer kept" in got[0]) == sent
    with listener(OK) as (url, got):
        Remote(url, "said").client().request("GET", "plan")
        assert b"Authorization: Bearer said" in got[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("url = ", "is not TOML"),
        ("urls = 'x'", "urls: unknown key"),
        ("token = 7", "token: must be text"),
        ("url = ''", "url: must be text"),
    ],
)
def test_a_wrong_config_file_is_one_line_that_names_it(config: Path, text: str, says: str) -> None:
    keep(config, text)
    with pytest.raises(InputError) as caught:
        Remote().client()
    assert str(caught.value).startswith(f"{config}: {says}")


def test_a_secret_that_others_may_read_is_refused_and_a_file_without_one_is_not(config: Path) -> None:
    keep(config, "token = 'hunter2'")
    config.chmod(0o640)
    with pytest.raises(InputError) as caught:
        Remote().client()
    assert "chmod 600" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    config.write_text("url = 'http://a'")
    assert Remote().client().url == "http://a"


def test_urls_and_tokens_that_are_none_are_refused_without_showing_a_secret() -> None:
    for url, token in (("http://me:hunter2@a", None), ("http://a", "hunter2\r\nX: y"), ("http://a", "hunter2 ")):
        with pytest.raises(InputError) as caught:
            Client(url, token=token)
        assert "hunter2" not in str(caught.value)


def test_conditions_queries_and_verbs_are_sent_as_they_are_meant() -> None:
    with listener(OK) as (url, got):
        answer = Client(url + "/prefix").request(
            "POST", "plans:preview", query={"before": 3}, body=b"{}", if_match='"r0"', if_none_match="*"
        )
    head = got[0].decode()
    assert head.startswith("POST /prefix/v1/plans:preview?before=3 HTTP/1.1\r\n")
    assert 'If-Match: "r0"\r\n' in head
    assert "If-None-Match: *\r\n" in head
    assert (answer.status, answer.document, answer.etag) == (200, {}, '"r1"')


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def test_events_are_read_one_by_one_and_heartbeats_left_out() -> None:
    body = (
        b'retry: 2000\n\n: alive\n\nid: r-1\nevent: job\ndata: {"id":"r-1","at":"t","kind":"job","data":{}}\n\n: x\n\n'
    )
    event = ServerEvent("r-1", "job", {"id": "r-1", "at": "t", "kind": "job", "data": {}})
    with listener(STREAM + body) as (url, _):
        events = Client(url).events()
        assert next(events) == event
        with pytest.raises(NoAnswer, match="ended the stream"):
            next(events)
    for data in (b"data: {}\n\n", b"data: {\n\n"):
        with listener(STREAM + data) as (url, _), pytest.raises(CommandError, match="unexpected answer"):
            next(Client(url).events())


@pytest.mark.parametrize("segment", ["..", ".", "a/b", "a%2Fb", "ä ö", "a?b", "a#b"])
def test_a_path_segment_arrives_as_it_was_given(segment: str) -> None:
    with listener(OK) as (url, got):
        Client(url + "/prefix").request("DELETE", "jobs", segment)
    target = got[0].split(b" ")[1].decode()
    assert target.startswith("/prefix/v1/jobs/")
    assert unquote(target.removeprefix("/prefix/v1/jobs/")) == segment
    assert "/" not in target.removeprefix("/prefix/v1/jobs/")


def test_why_there_is_no_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def failure(url: str) -> str:
        with pytest.raises(NoAnswer) as caught:
            Client(url).request("GET", "plan")
        assert "\n" not in str(caught.value)
        return str(caught.value).removeprefix(f"{url}: ")

    with socket.create_server(("127.0.0.1", 0)) as free:
        refused = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert failure(refused) == "connection refused; is the controller running?"
    assert failure("http://no-such-host.invalid") in (
        "Name or service not known; is the name in the URL right?",
        "Temporary failure in name resolution; is the name in the URL right?",
    )
    monkeypatch.setattr("controller.cli.connection.client.READ_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert failure(f"http://127.0.0.1:{silent.getsockname()[1]}") == (
            "no answer to GET /v1/plan within 0.2 s (--timeout); the controller is stopped, or busy"
        )
    openflow_hello = b"\x04\x00\x00\x08\x00\x00\x00\x01"
    for broken in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}", b"SSH-2.0-x\r\n\r\n", openflow_hello):
        with listener(broken) as (url, _):
            assert failure(url).endswith("; is this the HTTP port of a controller?")

    def unknown(*_args: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert failure("http://no-such-host.invalid") == "Name or service not known; is the name in the URL right?"


def test_a_redirection_is_not_followed_and_proxies_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    elsewhere = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with listener(elsewhere) as (url, _), pytest.raises(CommandError, match="302 Found"):
        Client(url).request("GET", "plan")


def test_a_stream_is_resumed_behind_an_id_and_its_end_is_reported() -> None:
    body = b'data: {"id":"r-2","at":"t","kind":"mode","data":{}}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    with listener(head + body) as (url, got):
        events = Client(url).events("r-1")
        assert next(events).id == "r-2"
        with pytest.raises(CommandError, match="ended the stream"):
            next(events)
    assert b"Last-Event-ID: r-1\r\n" in got[0]


def test_an_answer_that_is_no_stream_is_reported_and_a_wrong_token_names_the_options() -> None:
    with listener(OK) as (url, _), pytest.raises(CommandError, match="not a stream of events"):
        next(Client(url).events())
    problem = b'{"title": "Unauthorized", "detail": "the token is not known"}'
    refusal = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: %d\r\n\r\n%s" % (len(problem), problem)
    with listener(refusal) as (url, _), pytest.raises(CommandError, match=r"the token is not known .*FAIRSPINE_TOKEN"):
        Client(url, token="hunter2").request("GET", "plan")
