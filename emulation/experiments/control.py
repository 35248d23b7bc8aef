"""The controller under test: a ``ryu-manager`` in the lab, and its HTTP interface."""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from emulation.errors import LabError
from emulation.lab import DEFAULT_CONTROLLER, Lab

HTTP = ("127.0.0.1", 8080)
"""In the lab's own network namespace nobody else can have the port."""

READY_SECONDS = 30.0
REQUEST_SECONDS = 60.0


class Controller:
    """``ryu-manager --fabric FABRIC --policy POLICY --seed SEED ...``, which keeps nothing, until ``with`` ends."""

    def __init__(self, lab: Lab, fabric: Path, policy: str, seed: int, enforcement: str) -> None:
        command = Path(sys.executable).with_name("ryu-manager")
        options = ["--fabric", str(fabric), "--policy", policy, "--seed", str(seed), "--enforcement", enforcement]
        options += ["--store", "memory"]
        listen = ["--ofp-tcp-listen-port", str(DEFAULT_CONTROLLER[1]), "--wsapi-port", str(HTTP[1])]
        self._lab = lab
        self._reasons: list[str] = []
        self._child = lab.spawn("controller", [str(command), *options, *listen, "controller.app"])

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stop()

    def wait_ready(self) -> None:
        """Until the network is what the fabric file says, and every switch has confirmed its rules.

        Raises:
            LabError: not in time; with what the controller says is wrong.
        """
        self._wait(self._answers, "the controller answers")
        self._lab.wait_connected()
        self._wait(self._as_intended, "the network is as intended and its rules are active")

    def push(self, name: str, document: Any) -> None:
        """Push a job."""
        self._ask("PUT", f"/v1/jobs/{quote(name, safe='')}", document)

    def wait_active(self) -> dict[str, Any]:
        """The newest plan, once every switch has confirmed it."""
        self._wait(self._active, "every switch has confirmed the plan")
        plan: dict[str, Any] = self._ask("GET", "/v1/plan")["plan"]
        return plan

    def routes(self, host: str) -> dict[str, Any]:
        """What a host is told to send, and from which UDP source ports."""
        document: dict[str, Any] = self._ask("GET", f"/v1/routes?host={quote(host, safe='')}")
        return document

    def delete(self, name: str) -> None:
        """Delete a job."""
        self._ask("DELETE", f"/v1/jobs/{quote(name, safe='')}")

    def _answers(self) -> bool:
        try:
            self._ask("GET", "/healthz")
        except OSError:
            return False
        return True

    def _as_intended(self) -> bool:
        health = self._ask("GET", "/healthz")
        self._reasons = health["reasons"]
        return health["status"] == "ok" and bool(self._ask("GET", "/v1/fabric")["cabling"]["matches"])

    def _active(self) -> bool:
        states = self._ask("GET", "/v1/plan")
        return states["active"] is not None and states["active"]["epoch"] == states["computed"]["epoch"]

    def _wait(self, ready: Any, what: str) -> None:
        self._reasons = []
        try:
            self._child.wait_until(ready, what, READY_SECONDS)
        except LabError as error:
            said = "; ".join(self._reasons)
            raise LabError(f"{error}\n  the controller says: {said}" if said else str(error)) from None

    def _ask(self, method: str, target: str, document: Any = None) -> Any:
        connection = http.client.HTTPConnection(*HTTP, timeout=REQUEST_SECONDS)
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, target, body, {"Content-Type": "application/json"} if body else {})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise LabError(f"{method} {target}: {response.status}: {_detail(content)}")
        return json.loads(content) if content else None


def _detail(content: bytes) -> str:
    """What a problem document (RFC 9457) says."""
    try:
        problem = json.loads(content)
        return str(problem.get("detail") or problem["title"])
    except (ValueError, KeyError, AttributeError):
        return content.decode(errors="replace")[:200]
