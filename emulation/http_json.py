"""Send one request to a controller's HTTP interface, for the programs of the lab."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from typing import Any

import httpx

REQUEST_SECONDS = 60.0

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP. Without it, each would load the system's certificates, which takes 30 ms."""


@dataclass(frozen=True)
class JsonResponse:
    """A response. ``body``: parsed where it is JSON, otherwise text; ``None`` where it is empty."""

    status: int
    body: Any


def ask(
    address: tuple[str, int], method: str, target: str, document: object = None, *, timeout: float = REQUEST_SECONDS
) -> JsonResponse:
    """Send a request on a new connection and return the answer.

    Args:
        address: host and port of the server.
        method: HTTP method.
        target: path and query of the request.
        document: body to send as JSON; bytes are sent unchanged.
        timeout: seconds without progress after which to give up.

    Raises:
        httpx.TransportError: there is no connection, no answer in time, or it broke off.
    """
    body = document if isinstance(document, bytes | None) else json.dumps(document).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    with httpx.Client(timeout=timeout, trust_env=False, verify=PLAIN) as http:
        response = http.request(method, f"http://{address[0]}:{address[1]}{target}", content=body, headers=headers)
    if not response.content:
        return JsonResponse(response.status_code, None)
    if "json" in response.headers.get("Content-Type", ""):
        return JsonResponse(response.status_code, json.loads(response.content))
    return JsonResponse(response.status_code, response.content.decode(errors="replace"))
