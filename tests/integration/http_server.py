"""A process that serves the HTTP interface over an in-memory backend: ``python -m tests.integration.http_server``.

Prints its port in the first line of standard output, logs to standard error, and closes at the end of standard input.
"""

from __future__ import annotations

from controller import ryu_compat

ryu_compat.prepare()

import eventlet.tpool  # noqa: E402

eventlet.monkey_patch()

import json  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402

from controller.rest.limits import Limits  # noqa: E402
from controller.rest.wsgi import HttpServer  # noqa: E402
from tests.unit.rest.fake import FakeBackend  # noqa: E402


def main() -> None:
    """``argv[1]``: the limits that differ, as JSON."""
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s %(message)s")
    limits = Limits(**json.loads(sys.argv[1]))
    server = HttpServer("127.0.0.1", 0, FakeBackend(), limits=limits)
    server.start()
    print(server.port, flush=True)
    eventlet.tpool.execute(sys.stdin.read)
    server.stop()


if __name__ == "__main__":
    main()
