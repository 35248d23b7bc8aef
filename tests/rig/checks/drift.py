"""What a controller reports of rules that somebody else changed."""

from __future__ import annotations

from typing import Any

from tests.rig.controller import Controller


class Events:
    """The events of a controller from now on."""

    def __init__(self, controller: Controller) -> None:
        self._client = controller.client()
        self._events = self._client.events()

    def next(self, kind: str) -> dict[str, Any]:
        """The data of the next event of a kind."""
        for event in self._events:
            if event["kind"] == kind:
                return dict(event["data"])
        raise AssertionError("the stream has ended")

    def close(self) -> None:
        self._events.close()
        self._client.close()


def metric(controller: Controller, name: str, switch: str) -> float:
    text = controller.get("/metrics").body
    for line in text.splitlines():
        if line.startswith(f'fairspine_{name}{{switch="{switch}"}} '):
            return float(line.split()[-1])
    raise AssertionError(f"no {name} of {switch}")


def health(controller: Controller) -> str:
    return str(controller.get("/healthz").body["status"])
