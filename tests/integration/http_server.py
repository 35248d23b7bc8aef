"""A process that serves the HTTP interface over an in-memory backend: ``python -m tests.integration.http_server``.

Arguments: a JSON object of the limits that differ from the usual ones and of files (``tokens``, ``cert``, ``key``), and
the port. Prints the port in the first line of standard output, logs to standard error, and closes at the end of
standard input.
"""

from __future__ import annotations

from controller import ryu_compat

ryu_compat.prepare()

import eventlet.tpool  # noqa: E402

eventlet.monkey_patch()

import json  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402

from controller.rest.door import open_door  # noqa: E402
from controller.rest.limits import Limits  # noqa: E402
from controller.rest.wsgi import HttpServer  # noqa: E402
from tests.unit.rest.fake import FakeBackend  # noqa: E402


def main() -> None:
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s %(message)s")
    options = json.loads(sys.argv[1])
    tokens, cert, key = (options.pop(name, "") for name in ("tokens", "cert", "key"))
    access, tls = open_door("127.0.0.1", tokens, cert, key)
    limits = Limits(**options)
    server = HttpServer("127.0.0.1", int(sys.argv[2]), FakeBackend(), limits=limits, access=access, tls=tls)
    try:
        server.start()
    except OSError as error:
        sys.exit(f"cannot listen: {error.strerror}")
    print(server.port, flush=True)
    eventlet.tpool.execute(sys.stdin.read)
    server.stop()
    server.stop()


if __name__ == "__main__":
    main()
