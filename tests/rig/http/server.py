"""A process that serves the HTTP interface over an in-memory backend: ``python -m tests.rig.http.server``.

Arguments: a JSON object of the limits that differ from the usual ones, of files (``tokens``, ``cert``, ``key``) and of
further names (``hosts``; ``c`` unless given), and the port. Prints the port in the first line of standard output, logs
to standard error, and closes at the end of standard input.
"""

from __future__ import annotations

from controller import ryu_compat

ryu_compat.prepare()

import eventlet.tpool  # noqa: E402

eventlet.monkey_patch()

import json  # noqa: E402
import logging  # noqa: E402
import sys  # noqa: E402

from controller.rest.security.http_security import security_from  # noqa: E402
from controller.rest.security.origin import names_of  # noqa: E402
from controller.rest.serving.limits import ClientLimits  # noqa: E402
from controller.rest.wsgi import HttpServer  # noqa: E402
from tests.unit.rest.fake import FakeBackend  # noqa: E402


def main() -> None:
    logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s %(message)s")
    options = json.loads(sys.argv[1])
    tokens, cert, key = (options.pop(name, "") for name in ("tokens", "cert", "key"))
    security = security_from("127.0.0.1", tokens, cert, key)
    names = names_of("127.0.0.1", "", options.pop("hosts", "c"), tls=security.tls is not None)
    limits = ClientLimits(**options)
    server = HttpServer(("127.0.0.1", int(sys.argv[2])), FakeBackend(), limits=limits, security=security, names=names)
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
