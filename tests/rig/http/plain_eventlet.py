"""Run eventlet's WSGI server as it comes: ``python -m tests.rig.http.plain_eventlet``.

Its application reads every body.
Prints its port in the first line of standard output and ends at the end of standard input.
"""

from __future__ import annotations

from controller import ryu_compat

ryu_compat.prepare()

import sys  # noqa: E402
from typing import Any  # noqa: E402

import eventlet.tpool  # noqa: E402
import eventlet.wsgi  # noqa: E402


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Read the body and answer 200."""
    environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]


if __name__ == "__main__":
    listener = eventlet.listen(("127.0.0.1", 0))
    eventlet.spawn(eventlet.wsgi.server, listener, application, log_output=False, debug=False)
    print(listener.getsockname()[1], flush=True)
    eventlet.tpool.execute(sys.stdin.read)
