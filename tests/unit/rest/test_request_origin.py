"""Who requested a change, why, and by which request: from HTTP to the backend, the answer and the log."""

from __future__ import annotations

import logging
import os
import pwd
import socket
from typing import Any

import orjson
import pytest

from controller.core.caller import Caller
from controller.logs.line_formats import TextLines
from controller.rest.security.local_user import user_of_client
from tests.unit.rest.asking import send
from tests.unit.rest.fake import FakeBackend


class Remembering(FakeBackend):
    """Keeps the caller of the last change of drains."""

    caller: Caller

    def drains(self, names: Any, drained: bool, caller: Caller) -> Any:
        self.caller = caller
        return super().drains(names, drained, caller)


def drained(headers: dict[str, str]) -> tuple[Any, Caller]:
    backend = Remembering()
    body = orjson.dumps({"ids": ["spine1"], "drained": True})
    reply = send(
        backend, "POST", "/v1/fabric/links:drain", body=body, headers={"Content-Type": "application/json"} | headers
    )
    return reply, getattr(backend, "caller", Caller("none", "read"))  # type: ignore[arg-type]


def test_a_reason_and_a_request_id_reach_the_change_the_answer_and_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(TextLines())
    with caplog.at_level(logging.INFO):
        reply, caller = drained({"Fairspine-Reason": "CHG123", "X-Request-ID": "ticket-7"})
    assert (reply.status, reply.headers["X-Request-ID"]) == (200, "ticket-7")
    assert (caller.reason, caller.request_id) == ("CHG123", "ticket-7")
    assert "request ticket-7" in caplog.text


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "<script>"])
def test_a_request_id_that_is_none_is_replaced_by_a_new_one(given: str) -> None:
    ids = {drained({"X-Request-ID": given})[0].headers["X-Request-ID"] for _ in range(2)}
    assert len(ids) == 2
    assert given not in ids


@pytest.mark.parametrize("reason", ["x" * 201, "caf\xe9"])
def test_a_reason_that_cannot_be_kept_is_refused_in_words(reason: str) -> None:
    reply, _ = drained({"Fairspine-Reason": reason})
    assert reply.status == 400
    problem = orjson.loads(reply.body)
    assert (problem["field"], "printable ASCII" in problem["detail"]) == ("Fairspine-Reason", True)
    assert "^" not in problem["detail"]


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_user_of_a_connection_from_this_machine_is_known_and_no_other(
    family: socket.AddressFamily, address: str
) -> None:
    if family is socket.AF_INET6 and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 here")
    with socket.socket(family) as server:
        server.bind((address, 0))
        server.listen()
        own_port = str(server.getsockname()[1])
        with socket.create_connection((address, int(own_port))) as client:
            port = str(client.getsockname()[1])
            assert user_of_client(address, port, own_port) == pwd.getpwuid(os.geteuid()).pw_name
            assert user_of_client(address, port, "1") is None
            assert user_of_client("10.1.2.3", port, own_port) is None
        assert user_of_client(address, port, own_port) is None
    assert user_of_client("", "", "") is None
