"""Controllers that start at once, to be killed again and again: forked off a process that has loaded everything.

A line on standard input is a list of arguments (JSON) for ``ryu-manager``; the answers are ``pid N``, and ``ended``
once that process has ended. What runs in it is ``controller.launcher.main``, as in the command.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from controller import ryu_compat


def load() -> None:
    """Import all that a controller imports, and compile what it compiles."""
    ryu_compat.prepare()
    from ryu.lib import hub

    hub.patch(thread=True)
    from controller import app, launcher  # noqa: F401
    from controller.routing.warm_up import warm_up
    from controller.store import store  # noqa: F401

    warm_up()


def run(argv: list[str]) -> None:
    """A controller, until it is killed."""
    from controller import launcher

    status = 1
    try:
        status = launcher.main(argv)
    except BaseException:
        traceback.print_exc()
    os._exit(status)


def main() -> None:
    log = open(sys.argv[1], "a")  # noqa: SIM115 (until the end of the process)
    os.dup2(log.fileno(), 2)
    load()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log.fileno(), 1)
            run(json.loads(line))
        print("pid", pid, flush=True)
        os.waitpid(pid, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
