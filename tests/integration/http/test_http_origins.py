"""Other sites' pages have a browser send requests here: over real connections, and in a real browser."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controller.core.caller import Role
from controller.rest.security.tokens import new_token
from tests.rig.http.client import Server, serving
from tests.rig.page.browser import browser

MODE = json.dumps({"mode": "ecmp"}).encode()
EVIL = {"Host": "evil.example", "Origin": "http://evil.example"}
SIMPLE_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(hosts="") as running:
        yield running


def mode(server: Server, **headers: str) -> str:
    return str(json.loads(server.ask("GET", "/v1/mode", headers=headers).body)["mode"])


def carried_out(server: Server) -> list[str]:
    """The lines of the access log that tell of a rollback that was done."""
    told = [line for line in server.log.splitlines() if " POST /v1/plans/1:rollback " in line]
    assert told, "the log tells of no attempt"
    return [line for line in told if " POST /v1/plans/1:rollback 200 " in line]


def test_a_name_that_a_stranger_points_here_neither_reads_nor_changes(server: Server) -> None:
    for headers in (EVIL, {"Host": "evil.example"}):
        for method, target in (
            ("GET", "/v1/jobs"),
            ("GET", "/v1/events"),
            ("GET", "/"),
            ("GET", "/healthz"),
            ("GET", "/nothing"),
            ("PUT", "/v1/mode"),
            ("DELETE", "/v1/jobs/a"),
            ("POST", "/v1/plans/1:rollback"),
            ("OPTIONS", "/v1/mode"),
        ):
            refused = server.ask(method, target, MODE if method == "PUT" else None, headers)
            assert refused.status == 421, (method, target)
            assert (refused.problem["field"], refused.problem["value"]) == ("Host", "evil.example")
    assert mode(server) == "planned"


def test_a_page_of_another_origin_neither_reads_nor_changes(server: Server) -> None:
    for method, target in (("GET", "/v1/jobs"), ("GET", "/v1/events"), ("PUT", "/v1/mode"), ("OPTIONS", "/v1/mode")):
        refused = server.ask(method, target, MODE if method == "PUT" else None, {"Origin": "http://evil.example"})
        assert (refused.status, refused.problem["field"]) == (403, "Origin")
        assert refused.problem["value"] == "http://evil.example"
        assert not [name for name in refused.headers if name.lower().startswith("access-control-")]
    assert mode(server) == "planned"
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert server.ask("GET", "/v1/jobs", headers=own).status == 200


@pytest.mark.parametrize("kind", SIMPLE_TYPES)
@pytest.mark.parametrize("target", ["/v1/plans/1:rollback", "/v1/plans:preview"])
def test_a_post_that_needs_no_preflight_is_never_carried_out(server: Server, target: str, kind: str) -> None:
    for body in (b"", b"{}"):
        refused = server.ask("POST", target, body, {"Content-Type": kind} if kind else {})
        assert refused.status == 415, refused.body
    assert not carried_out(server)


def test_a_rollback_says_that_it_is_json_with_a_body_or_without() -> None:
    json_type = {"Content-Type": "application/json"}
    with serving(hosts="") as own:
        for body in (None, b"", b"{}"):
            assert own.ask("POST", "/v1/plans/1:rollback", body, json_type).status == 200
        assert len(carried_out(own)) == 3
        for body, status in ((b"[]", 400), (b'{"epoch": 1}', 422), (b"x", 400)):
            assert own.ask("POST", "/v1/plans/1:rollback", body, json_type).status == status


def test_with_tokens_it_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token, secret = new_token("w", Role.WRITE)
    file.write_text(token.line() + "\n")
    file.chmod(0o600)
    known = {"Authorization": f"Bearer {secret}"}
    with serving(hosts="", tokens=str(file)) as secured:
        assert secured.ask("PUT", "/v1/mode", MODE, known | EVIL).status == 421
        assert secured.ask("PUT", "/v1/mode", MODE, known | {"Origin": "http://evil.example"}).status == 403
        assert secured.ask("POST", "/v1/plans/1:rollback", b"", known).status == 415
        assert mode(secured, **known) == "planned"
        assert secured.ask("PUT", "/v1/mode", MODE, known).status == 200


PAGE = """<!doctype html><title>evil</title><form id=f method=post enctype=text/plain><input name=a></form><script>
async function attack(base) {
  const tried = [];
  const attempt = async (name, path, options) => {
    try {
      const response = await fetch(base + path, options);
      tried.push([name, response.type === "opaque" ? "opaque" : await response.text()]);
    } catch (error) { tried.push([name, "refused"]); }
  };
  await attempt("read", "/v1/jobs", {});
  await attempt("put", "/v1/mode", {method: "PUT", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({mode: "ecmp"})});
  await attempt("post", "/v1/plans/1:rollback", {method: "POST"});
  await attempt("blind post", "/v1/plans/1:rollback", {method: "POST", mode: "no-cors"});
  await attempt("blind json", "/v1/plans/1:rollback", {method: "POST", mode: "no-cors",
    headers: {"Content-Type": "application/json"}, body: "{}"});
  navigator.sendBeacon(base + "/v1/plans/1:rollback", new Blob(["{}"], {type: "application/json"}));
  navigator.sendBeacon(base + "/v1/plans/1:rollback");
  tried.push(["events", await new Promise((done) => {
    const source = new EventSource(base + "/v1/events");
    source.onopen = () => done("open");
    source.onerror = () => { source.close(); done("refused"); };
  })]);
  return Object.fromEntries(tried);
}
</script>"""


@contextmanager
def evil_site() -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_args: object) -> None:
            pass

    site = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    try:
        yield site.server_address[1]
    finally:
        site.shutdown()
        site.server_close()
        thread.join()


def test_a_real_browser_on_a_page_of_another_origin_gets_nowhere(server: Server) -> None:
    with browser() as made, evil_site() as port:
        # Another port of the same host is the nearest a stranger comes: one site, two origins.
        made.driver.get(f"http://127.0.0.1:{port}/")
        base = f"http://127.0.0.1:{server.port}"
        tried = made.driver.execute_async_script("attack(arguments[0]).then(arguments[1])", base)
        assert tried == {
            "read": "refused",
            "put": "refused",
            "post": "refused",
            "blind post": "opaque",
            "blind json": "opaque",
            "events": "refused",
        }
        made.run(
            "const f = document.getElementById('f'); f.action = arguments[0]; f.submit()", f"{base}/v1/plans/1:rollback"
        )
        assert mode(server) == "planned"
        assert not carried_out(server)
        # A link from there leads to the dashboard all the same.
        made.driver.get(f"http://127.0.0.1:{port}/")
        made.run("location = arguments[0]", f"{base}/")
        made.until(lambda: "no token required" in made.text("body"), "the dashboard is there")
