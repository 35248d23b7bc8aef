"""A process that serves the HTTP interface over an in-memory backend: a program of ``tests.rig.forks``.

Arguments: a JSON object of the limits that differ from the usual ones, of files (``tokens``, ``cert``, ``key``,
``agents_ca``) and of further names (``hosts``; ``c`` unless given), and the port. Prints the port in the first line of
standard output, logs to standard error, and closes at the end of standard input.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Sequence

import eventlet.tpool

from controller.rest.security.http_security import security_from
from controller.rest.security.origin import names_of
from controller.rest.serving.limits import ClientLimits
from controller.rest.wsgi import HttpServer
from tests.unit.rest.fake import FakeBackend


def main(argv: Sequence[str]) -> int:
    """Serve until standard input ends."""
    # Not at import: the fork server imports this module, and must not change itself.
    eventlet.monkey_patch()
    warnings.simplefilter("default")
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s %(message)s")
    options = json.loads(argv[0])
    files = [options.pop(name, "") for name in ("tokens", "cert", "key", "agents_ca")]
    security = security_from("127.0.0.1", *files)
    names = names_of("127.0.0.1", "", options.pop("hosts", "c"), tls=security.tls is not None)
    limits = ClientLimits(**options)
    server = HttpServer(("127.0.0.1", int(argv[1])), FakeBackend(), limits=limits, security=security, names=names)
    try:
        server.start()
    except OSError as error:
        sys.exit(f"cannot listen: {error.strerror}")
    print(server.port, flush=True)
    eventlet.tpool.execute(sys.stdin.read)
    server.stop()
    server.stop()
    return 0
