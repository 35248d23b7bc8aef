"""The host feeder of the lab: sends what agents say of their queue pairs to the controller, beside the experiment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

SEND_SECONDS = 0.5


class TallyFeeder:
    """A thread that posts tallies together, about twice a second, until ``with`` ends."""

    def __init__(self, post: Callable[[Mapping[str, Any]], None]) -> None:
        """Post the body of ``POST /v1/sightings`` by ``post``."""
        self._post = post
        self._waiting: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="tallies", daemon=True)

    def __enter__(self) -> TallyFeeder:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Post what is left and end the thread; raise what it met."""
        self._ended.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def take(self, tally: dict[str, Any]) -> None:
        """Take a report of an agent."""
        self._waiting.put(tally)

    def _run(self) -> None:
        try:
            while not self._ended.wait(SEND_SECONDS):
                self._send()
            self._send()
        except Exception as error:
            self._error = error

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
