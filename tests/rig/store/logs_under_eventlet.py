"""Worker threads and the event loop log at the same time, everything patched as the launcher does it. A program.

Prints the number of messages of each thread that ended.
"""

from __future__ import annotations

import logging
import sys

from controller import ryu_compat

ryu_compat.prepare()
from ryu.lib import hub  # noqa: E402

hub.patch(thread=True)
ryu_compat.share_logging_with_threads()
from ryu.cmd import manager  # noqa: E402

assert manager is not None  # its import patches the rest

from eventlet import tpool  # noqa: E402

THREADS, MESSAGES = 4, 2000
LOG = logging.getLogger("test")


def work() -> int:
    for number in range(MESSAGES):
        LOG.info("a thread: %d", number)
    return MESSAGES


def main() -> None:
    # Threads meet within a message nearly every time.
    sys.setswitchinterval(1e-6)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    ended: list[int] = []
    for _ in range(THREADS):
        hub.spawn(lambda: ended.append(tpool.execute(work)))
    while len(ended) < THREADS:
        LOG.info("the loop")
        hub.sleep(0)
    print(ended, flush=True)


if __name__ == "__main__":
    main()
