"""One client that asks for much: it keeps neither changes nor other clients waiting."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from controller.core.caller import Role
from controller.rest.security.tokens import new_token
from tests.rig.http.client import Server, serving
from tests.rig.real_controller import controller
from tests.rig.waiting import eventually

JSON_TYPE = {"Content-Type": "application/json"}


def tokens(folder: Path, **roles: Role) -> tuple[Path, dict[str, dict[str, str]]]:
    """A file of tokens, and for each name the headers of whoever has it."""
    file, lines, headers = folder / "tokens", [], {}
    for name, role in roles.items():
        token, secret = new_token(name, role)
        lines.append(token.line())
        headers[name] = JSON_TYPE | {"Authorization": f"Bearer {secret}"}
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)
    return file, headers


@contextmanager
def crowd(server: Server, count: int, target: str, body: bytes, headers: dict[str, str]) -> Iterator[Counter[int]]:
    """So many clients that post the same again and again; counts the statuses that they get."""
    seen: Counter[int] = Counter()
    enough = threading.Event()

    def insist() -> None:
        while not enough.is_set():
            seen[server.ask("POST", target, body, headers).status] += 1
            enough.wait(0.05)

    clients = [threading.Thread(target=insist) for _ in range(count)]
    for client in clients:
        client.start()
    try:
        yield seen
    finally:
        enough.set()
        for client in clients:
            client.join()


def preview_of(size: int) -> bytes:
    """A preview's body of about so many bytes."""
    flow = {"src": "h1", "dst": "h5", "bytes": 1000}
    flows = [flow] * (size // len(json.dumps(flow)))
    return json.dumps({"put": [{"name": "tried", "flows": flows}]}).encode()


def test_a_hundred_and_forty_previews_of_a_reader_keep_no_change_waiting(tmp_path: Path) -> None:
    file, headers = tokens(tmp_path, reader=Role.READ, writer=Role.WRITE)
    secret = headers["writer"]["Authorization"].removeprefix("Bearer ")
    with controller(tmp_path, "--tokens", str(file), secret=secret) as (server, _):
        with crowd(server, 140, "/v1/plans:preview", preview_of(100_000), headers["reader"]) as seen:
            changed = []
            for number in range(10):
                body = json.dumps({"flows": [{"src": "h1", "dst": "h5", "bytes": 1000 + number}]}).encode()
                changed.append(server.ask("PUT", "/v1/jobs/a", body, headers["writer"]).status)
        assert set(changed) <= {200, 201}, changed
        assert set(seen) <= {200, 503}, seen
        assert seen[200] > 0


def test_a_reader_that_takes_all_it_can_get_leaves_a_place_for_another_reader(tmp_path: Path) -> None:
    file, headers = tokens(tmp_path, greedy=Role.READ, modest=Role.READ)
    asked = "".join(f"{name}: {value}\r\n" for name, value in headers["greedy"].items())
    slow = f"GET /v1/jobs/slow HTTP/1.1\r\nHost: c\r\n{asked}\r\n".encode()
    with serving(tokens=str(file), requests=4) as server, ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(server.raw(slow * 20))
        eventually(lambda: server.ask("GET", "/v1/plan", headers=headers["greedy"]).status == 503, "it has its share")
        for _ in range(5):
            assert server.ask("GET", "/v1/plan", headers=headers["modest"]).status == 200
