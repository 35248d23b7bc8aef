"""What a controller reports of rules that somebody else changed."""

from __future__ import annotations

import http.client
import json
from typing import Any

from tests.rig.controller import REQUEST_SECONDS, Controller


class Events:
    """The events of a controller from now on."""

    def __init__(self, controller: Controller) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", controller.http_port, timeout=REQUEST_SECONDS)
        self._connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream"})
        self._response = self._connection.getresponse()
        assert self._response.status == 200

    def next(self, kind: str) -> dict[str, Any]:
        """The data of the next event of a kind."""
        while True:
            line = self._response.readline()
            assert line, "the stream has ended"
            if line.startswith(b"data:"):
                event = json.loads(line[5:])
                if event["kind"] == kind:
                    return dict(event["data"])

    def close(self) -> None:
        self._response.close()
        self._connection.close()


def metric(controller: Controller, name: str, switch: str) -> float:
    text = controller.get("/metrics").body
    for line in text.splitlines():
        if line.startswith(f'fairspine_{name}{{switch="{switch}"}} '):
            return float(line.split()[-1])
    raise AssertionError(f"no {name} of {switch}")


def health(controller: Controller) -> str:
    return str(controller.get("/healthz").body["status"])
