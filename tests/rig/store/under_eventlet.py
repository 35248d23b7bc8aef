"""The store where the controller uses it: in eventlet's worker threads, everything patched as Ryu does it. A program.

Opens the store of its argument. For each line of standard input, ``one`` (a commit) or ``many`` (commits and reads from
many greenlets at once), it answers with a line of JSON: which epoch is the newest then, or the error. During a commit
it prints ``the loop goes on`` once a timer of the event loop has rung some times, unless the commit ends before.
"""

from __future__ import annotations

import json
import sys

from controller import ryu_compat

ryu_compat.prepare()
from ryu.lib import hub  # noqa: E402

hub.patch(thread=True)
from ryu.cmd import manager  # noqa: E402

assert manager is not None  # its import patches the rest

from eventlet import tpool  # noqa: E402

from controller.store.errors import StoreError  # noqa: E402
from controller.store.store import Store  # noqa: E402
from tests.rig.store.writer import PLANS_KEPT, step  # noqa: E402

TIMER_SECONDS = 0.01
RINGS = 20
AT_ONCE = 12


class Bell:
    """Rings in the event loop as long as nothing holds it."""

    def __init__(self) -> None:
        self.rings = 0
        hub.spawn(self._run)

    def _run(self) -> None:
        while True:
            hub.sleep(TIMER_SECONDS)
            self.rings += 1


def commit(store: Store, number: int, bell: Bell) -> str:
    """One commit; what went wrong, or nothing."""
    first = bell.rings

    def watch() -> None:
        while bell.rings < first + RINGS:
            hub.sleep(TIMER_SECONDS)
        print("the loop goes on", flush=True)

    watcher = hub.spawn(watch)
    try:
        tpool.execute(store.commit, step(number))
    except StoreError as error:
        return str(error)
    finally:
        hub.kill(watcher)
    return ""


def commit_and_read(store: Store, first: int) -> None:
    """Commits and reads from many greenlets, in more threads than one. All must come back, and without an error."""

    def write(number: int) -> None:
        tpool.execute(store.commit, step(number))

    def read() -> None:
        for plan in tpool.execute(store.plans):
            assert plan.paths is None
        tpool.execute(store.load)

    tasks = [hub.spawn(write, first + n, raise_error=True) for n in range(AT_ONCE)]
    tasks += [hub.spawn(read, raise_error=True) for _ in range(AT_ONCE)]
    for task in tasks:
        task.wait()


def main() -> None:
    store = Store.open(sys.argv[1], plans_kept=2 * AT_ONCE + PLANS_KEPT)
    print("open", flush=True)
    bell = Bell()
    epoch = 0
    while command := sys.stdin.readline().strip():
        hub.sleep(0)
        error = ""
        if command == "one":
            error = commit(store, epoch + 1, bell)
        else:
            commit_and_read(store, epoch + 1)
        if not error:
            epoch = tpool.execute(store.load).epoch
        print(json.dumps({"epoch": epoch, "error": error}), flush=True)
    store.close()
    tpool.killall()


if __name__ == "__main__":
    main()
