"""The HTTP interface over real connections, with clients that mean well."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from controller.rest import schemas
from tests.rig.http.client import PATIENCE_SECONDS, Server, serving, start, until_closed
from tests.rig.programs import fairspine
from tests.rig.waiting import eventually
from tests.unit.rest.fake import ENDLESS

MIB = 1024 * 1024
OVER = 16 * MIB + 1


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def job(size: int) -> bytes:
    """A JSON document of so many bytes."""
    return b'{"padding": "' + b"x" * (size - 15) + b'"}'


def test_a_job_is_put_read_listed_and_deleted(server: Server) -> None:
    assert server.ask("PUT", "/v1/jobs/one", b"{}").status == 201
    assert server.ask("PUT", "/v1/jobs/one", b"{}").status == 200
    schemas.JobDocument.model_validate_json(server.ask("GET", "/v1/jobs/one").body)
    listed = schemas.JobList.model_validate_json(server.ask("GET", "/v1/jobs").body)
    assert "one" in [summary.name for summary in listed.jobs]
    gone = server.ask("DELETE", "/v1/jobs/one")
    assert (gone.status, gone.body) == (204, b"")
    assert "Content-Length" not in gone.headers
    assert server.ask("DELETE", "/v1/jobs/one").problem["field"] == "job"


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("/healthz", schemas.Health),
        ("/v1/fabric", schemas.FabricDocument),
        ("/v1/plan", schemas.PlanDocument),
        ("/v1/links", schemas.LinkList),
        ("/v1/routes?host=h1", schemas.Routes),
    ],
)
def test_every_document_is_json_and_head_gives_its_length(server: Server, target: str, model: type[BaseModel]) -> None:
    got = server.ask("GET", target)
    model.model_validate_json(got.body)
    head = server.ask("HEAD", target)
    assert (got.status, head.status, head.body) == (200, 200, b"")
    assert got.headers["Content-Type"] == head.headers["Content-Type"] == "application/json"
    assert int(head.headers["Content-Length"]) == len(got.body)
    assert "Server" not in got.headers


def test_a_wrong_method_is_a_problem_that_lists_the_allowed_ones(server: Server) -> None:
    refused = server.ask("POST", "/v1/jobs")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert refused.problem["instance"] == "/v1/jobs"
    asked = server.ask("OPTIONS", "/v1/jobs/x")
    assert (asked.status, asked.headers["Allow"], asked.body) == (204, "DELETE, GET, HEAD, OPTIONS, PUT", b"")
    assert server.ask("OPTIONS", "*").status == 204


def test_a_large_document_is_compressed_beside_other_requests_on_one_connection(server: Server) -> None:
    client = server.client()
    for coding in ("gzip", "identity", "gzip"):
        got = client.ask("GET", "/v1/jobs/large", headers={"Accept-Encoding": coding})
        sent = got.content
        assert (got.headers["Content-Encoding"], got.headers["Vary"]) == (
            "gzip" if coding == "gzip" else None,
            "Accept-Encoding",
        )
        assert int(got.headers["Content-Length"]) == len(sent)
        assert len(gzip.decompress(sent) if coding == "gzip" else sent) > 8_000_000
        assert (len(sent) < 100_000) == (coding == "gzip")
    client.close()


@pytest.mark.parametrize(
    "target", ["/web/", "/web/none.js", "/v1", "/v1/jobs/", "/v1/jobs/a/b", "/v1/plan/", "//v1", "/%00", "/caf%C3%A9"]
)
def test_a_path_that_names_nothing_is_a_problem(server: Server, target: str) -> None:
    assert server.ask("GET", target).problem["title"] == "Not Found"


def test_the_dashboards_files_are_there_compressed_and_not_sent_twice(server: Server) -> None:
    for target in ("/", "/web/app.js", "/web/base.css?x=1"):
        plain = server.ask("GET", target)
        assert (plain.status, plain.headers["Content-Encoding"]) == (200, None)
        assert plain.headers["Content-Security-Policy"].startswith("default-src 'self'")
        zipped = server.ask("GET", target, headers={"Accept-Encoding": "gzip"})
        assert gzip.decompress(zipped.body) == plain.body
        head = server.ask("HEAD", target)
        assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(plain.body)))
        with server.client() as client:
            # Two on one connection: an answer without a body ends where it says that it ends.
            for is_first in (True, False):
                known = client.ask("GET", target, headers={"If-None-Match": plain.headers["ETag"]})
                assert (known.status, known.content, known.headers["Transfer-Encoding"]) == (304, b"", None)
                assert known.on_new_connection == is_first
        assert server.ask("POST", target, b"{}").problem["status"] == 405


def test_a_name_may_be_percent_encoded_and_an_encoded_slash_is_part_of_it(server: Server) -> None:
    assert server.ask("PUT", "/v1/jobs/%67pt3%2Da", b"{}").status == 201
    assert server.ask("GET", "/v1/jobs/gpt3-a").status == 200
    for target, value in (
        ("a%2Fb", "a/b"),
        ("caf%C3%A9", "café"),
        ("%", "%"),
        ("a" * 64, "a" * 64),
        ("a%0D%0Ab", "a\r\nb"),
    ):
        refused = server.ask("PUT", f"/v1/jobs/{target}", b"{}")
        assert (refused.status, refused.problem["field"], refused.problem["value"]) == (400, "name", value)


def test_a_wrong_query_is_a_problem_that_names_the_parameter(server: Server) -> None:
    assert server.ask("GET", "/v1/routes").problem["field"] == "host"
    assert server.ask("GET", "/v1/plan?verbose=1").problem["field"] == "verbose"
    assert server.ask("GET", "/v1/routes?host=h%20").problem["value"] == "h "


def test_bad_input_is_distinguished_from_malformed_json(server: Server) -> None:
    assert server.ask("PUT", "/v1/jobs/x", b"{").problem["status"] == 400
    assert server.ask("PUT", "/v1/jobs/x", b"").problem["status"] == 400
    wrong = server.ask("PUT", "/v1/jobs/x", b'{"weight": -1}').problem
    assert (wrong["status"], wrong["field"], wrong["value"]) == (422, "weight", -1)


def test_a_form_is_refused_as_such(server: Server) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert server.ask("PUT", "/v1/jobs/x", b"{}", form).problem["status"] == 415


def test_what_is_not_known_yet_is_503_with_a_time_to_come_back(server: Server) -> None:
    refused = server.ask("GET", "/v1/jobs/unavailable")
    assert (refused.problem["status"], refused.headers["Retry-After"]) == (503, "7")


def test_a_mistake_of_ours_is_one_traceback_in_the_log_and_only_its_id_to_the_client(server: Server) -> None:
    before = server.log.count("Traceback")
    refused = server.ask("GET", "/v1/jobs/broken")
    assert refused.problem["status"] == 500
    assert b"secret" not in refused.body
    assert b"Traceback" not in refused.body
    assert f"error {refused.problem['error_id']}: GET /v1/jobs/broken" in server.log
    assert server.log.count("Traceback") == before + 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_error_that_no_answer_can_be_made_of_is_logged_with_the_id_that_its_client_gets(
    server: Server, method: str
) -> None:
    refused = server.ask(method, "/v1/jobs/unwritable")
    assert refused.status == 500
    assert b"secret" not in refused.body
    if method == "GET":
        assert refused.problem["title"] == "Internal server error"
        assert f"error {refused.problem['error_id']}: GET /v1/jobs/unwritable" in server.log
    assert server.ask("GET", "/v1/jobs").status == 200


def test_every_request_is_one_line_in_the_log(server: Server) -> None:
    server.ask("PUT", "/v1/jobs/logged%1B", b"{}")
    lines = [line for line in server.log.splitlines() if "logged" in line]
    assert len(lines) == 1
    assert re.fullmatch(r"INFO controller\.rest\.security\.access 127\.0\.0\.1 PUT /v1/jobs/logged%1B 400 .*", lines[0])


@pytest.mark.parametrize("size", [100, 300_000, 16 * MIB])
def test_a_body_up_to_the_limit_arrives_with_a_length_and_in_chunks(server: Server, size: int) -> None:
    body = job(size)
    assert len(body) == size
    assert server.ask("PUT", f"/v1/jobs/plain{size}", body).status == 201
    pieces = (body[start : start + 100_000] for start in range(0, size, 100_000))
    assert server.ask("PUT", f"/v1/jobs/chunked{size}", pieces).status == 201


def test_a_body_over_the_limit_is_413_and_the_client_hears_of_it(server: Server) -> None:
    refused = server.ask("PUT", "/v1/jobs/big", job(OVER))
    assert refused.problem["status"] == 413
    assert refused.headers["Connection"] == "close"
    pieces = (b"x" * 100_000 for _ in range(OVER // 100_000 + 1))
    assert server.ask("PUT", "/v1/jobs/big", pieces).problem["status"] == 413
    assert server.ask("GET", "/v1/jobs/big").status == 404


def test_a_client_that_expects_100_continue_gets_it_or_an_error(server: Server) -> None:
    head = b"PUT /v1/jobs/%s HTTP/1.1\r\nHost: c\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with server.raw(head % (b"polite", 2)) as client:
        stream = client.makefile("rb")
        assert stream.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert stream.readline() == b"\r\n"
        client.sendall(b"{}")
        assert stream.readline() == b"HTTP/1.1 201 Created\r\n"
    for name, size, status in ((b"a%2Fb", 2, b"400"), (b"big", OVER, b"413")):
        with server.raw(head % (name, size)) as client:
            assert client.recv(64 * 1024).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("words", [["status"], ["fabric"], ["links"], ["links", "leaf1"], ["routes", "h1"]])
def test_commands_show_what_the_interface_answers(server: Server, words: list[str]) -> None:
    url = f"http://127.0.0.1:{server.port}"
    done = fairspine(*words, "--url", url, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)


def test_an_analysis_ends_when_its_client_disconnects(server: Server) -> None:
    body = b'{"above": %f}' % ENDLESS
    head = f"POST /v1/plans:survive HTTP/1.1\r\nHost: c\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(head.encode() + body)
        # It goes on as long as the client is there.
        assert server.ask("GET", "/healthz").status == 200
        assert "/v1/plans:survive" not in server.log
    eventually(lambda: "/v1/plans:survive 200" in server.log, "the analysis has ended")


def test_one_connection_carries_many_requests(server: Server) -> None:
    asked = (
        ("PUT", "kept", b"{}", 201),
        ("GET", "kept", None, 200),
        ("PUT", "kept", b"{", 400),
        ("DELETE", "kept", None, 204),
    )
    with server.client() as client:
        responses = [client.ask(method, f"/v1/jobs/{name}", content=body) for method, name, body, _ in asked]
    assert [response.status for response in responses] == [status for *_, status in asked]
    assert [response.on_new_connection for response in responses] == [True, False, False, False]


def test_requests_sent_at_once_are_answered_in_order(server: Server) -> None:
    requests = (
        b"PUT /v1/jobs/p HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1;x=y\r\n{\r\n1\r\n}\r\n0\r\nT: u\r\n\r\n",
        b"HEAD /healthz HTTP/1.1\r\nHost: c\r\n\r\n",
        b"PUT /v1/jobs/p HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n{}",
        b"DELETE /v1/jobs/p HTTP/1.1\r\nHost: c\r\n\r\n",
        b"GET /v1/jobs/p HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n",
    )
    received = server.converse(b"".join(requests))
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", received) == [b"201", b"200", b"200", b"204", b"404"]


def test_an_unexpected_body_is_not_parsed_as_the_next_request(server: Server) -> None:
    inner = b"DELETE /v1/jobs HTTP/1.1\r\nHost: c\r\n\r\n"
    outer = b"GET /healthz HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n\r\n" % len(inner)
    received = server.converse(outer + inner)
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", received) == [b"200"]


def test_a_client_of_http_1_0_is_answered_and_let_go(server: Server) -> None:
    with server.raw(b"GET /healthz HTTP/1.0\r\n\r\n") as client:
        received = until_closed(client)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_large_document_arrives_whole(server: Server) -> None:
    assert len(server.ask("GET", "/v1/jobs/large").body) == 8_000_014


def test_a_taken_port_is_refused_and_a_port_left_is_free_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving() as first:
        second = start(log, Path(os.devnull), tmp_path / "stdout", first.port)
        assert second.wait(PATIENCE_SECONDS) == 1
        assert log.read_text().splitlines()[-1] == "cannot listen: Address already in use"
        assert first.ask("GET", "/healthz").status == 200
    with serving(port=first.port) as again:
        assert again.ask("GET", "/healthz").status == 200


def test_the_server_stops_while_clients_hold_connections_open() -> None:
    with serving() as running:
        clients = [
            running.raw(sent)
            for sent in (
                b"",
                b"GET",
                b"GET /v1/events HTTP/1.1\r\nHost: c\r\n\r\n",
                b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nContent-Length: 9\r\n\r\n",
            )
        ]
        assert running.ask("GET", "/healthz").status == 200
    for client in clients:
        until_closed(client)
        client.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE_SECONDS)
