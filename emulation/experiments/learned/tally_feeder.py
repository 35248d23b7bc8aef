"""The host feeder of the lab: sends what agents say of their queue pairs to the controller, beside the experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any

from emulation.experiments.loop_thread import LoopThread

SEND_SECONDS = 0.5


class TallyFeeder(LoopThread):
    """A thread that posts tallies together, about twice a second, until ``with`` ends."""

    def __init__(self, post: Callable[[Mapping[str, Any]], None]) -> None:
        """Post the body of ``POST /v1/sightings`` by ``post``."""
        super().__init__("tallies")
        self._post = post
        self._waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def take(self, tally: dict[str, Any]) -> None:
        """Take a report of an agent."""
        self._waiting.put(tally)

    def _run(self) -> None:
        while not self._ended.wait(SEND_SECONDS):
            self._send()
        self._send()

    def _send(self) -> None:
        body: dict[str, list[Any]] = {"qps": [], "qp": [], "at": [], "bytes": []}
        number: dict[tuple[Any, ...], int] = {}
        while True:
            try:
                tally = self._waiting.get_nowait()
            except Empty:
                break
            for qp, size in zip(tally["qps"], tally["bytes"], strict=True):
                key = tuple(qp.values())
                if key not in number:
                    number[key] = len(number)
                    body["qps"].append(qp)
                body["qp"].append(number[key])
                body["at"].append(tally["at"])
                body["bytes"].append(size)
        if body["qps"]:
            self._post(body)
