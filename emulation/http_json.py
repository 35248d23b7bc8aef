"""One request to a controller's HTTP interface, as the lab's own programs make them."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

REQUEST_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """What the controller said. ``body`` is parsed where it is JSON, else text; empty: ``None``."""

    status: int
    body: Any


def ask(address: tuple[str, int], method: str, target: str, document: object = None) -> Answer:
    """Make a request on a connection of its own.

    Args:
        document: sent as JSON; bytes are sent as they are.

    Raises:
        OSError: nobody answers.
        http.client.HTTPException: whoever answered has gone in the middle of it.
    """
    connection = http.client.HTTPConnection(*address, timeout=REQUEST_SECONDS)
    try:
        body = document if isinstance(document, bytes | None) else json.dumps(document)
        connection.request(method, target, body, {} if body is None else {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        if not data:
            return Answer(response.status, None)
        if "json" in response.getheader("Content-Type", ""):
            return Answer(response.status, json.loads(data))
        return Answer(response.status, data.decode(errors="replace"))
    finally:
        connection.close()
