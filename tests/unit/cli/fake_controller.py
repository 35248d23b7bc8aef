"""A controller with prepared answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Controller:
    """Answers each request with the next of the answers that were laid out for it, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, bytes]] = []
        self.headers: list[Mapping[str, str]] = []
        self.content_type = ""
        """Of every answer; without one, that of what was asked for."""
        self.url = ""

    def lay_out(self, *answers: tuple[int, Any]) -> None:
        self.answers += answers


@contextmanager
def serving(controller: Controller) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            controller.asked.append((self.command, self.path, body))
            controller.headers.append(dict(self.headers.items()))
            status, document = controller.answers.pop(0)
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Content-Type", controller.content_type or self.headers["Accept"])
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            """Tests print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        controller.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
