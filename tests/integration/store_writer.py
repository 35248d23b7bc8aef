"""A controller that does nothing but push jobs, to be killed at any moment. The store's tests run it as a program.

For each line of standard input, a URL, it forks a child that opens this store and commits ``step`` after ``step``,
and says so on standard output: ``pid N`` first, then each number once it is acknowledged. ``ended`` follows the child's
end. Everything is imported before the fork, so that starting takes no time.
"""

from __future__ import annotations

import os
import sys
import traceback

import numpy as np

from controller.store.store import Store
from controller.store.values import Change, KeptJob, KeptMode, KeptPaths, PlanRecord

PLANS_KEPT = 5


def step(number: int) -> Change:
    """The change that leads from epoch ``number`` - 1 to ``number``: jobs come, change and go, and each has a plan."""
    rng = np.random.default_rng(number)
    document = rng.bytes(int(rng.integers(1, 30_000)))
    job = KeptJob(f"job{number % 7}", number % 3, document, rng.integers(49152, 65536, 20), str(number), 0.0, "me")
    paths = KeptPaths(("h1",), ("spine1",), rng.integers(0, 2**62, 500), rng.integers(0, 9, 500), rng.random(500))
    plan = PlanRecord(
        number, float(number), "a job", "me", "fair", 0, "planned", "f", str(number), (), (), (job.name,), 1.0, 1.0,
        1.0, None, 0.0, 0.1, 500, 0, 0, None, paths,
    )  # fmt: skip
    return Change(
        put=(job,),
        deleted=(f"job{(number + 3) % 7}",),
        drained=frozenset({f"spine{number % 4}"}) if number % 2 else None,
        mode=KeptMode("frozen", float(number), "me") if number % 5 == 0 else None,
        plans=(plan,),
    )


def write(url: str) -> None:
    """Go on where the store ends, for ever."""
    os.write(1, b"pid %d\n" % os.getpid())
    store = Store.open(url, plans_kept=PLANS_KEPT)
    number = store.load().epoch
    while True:
        number += 1
        store.commit(step(number))
        os.write(1, b"%d\n" % number)


def main() -> None:
    # Whatever the first use loads is loaded before the fork.
    Store.open("memory").close()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                write(line.strip())
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.waitpid(child, 0)
        os.write(1, b"ended\n")


if __name__ == "__main__":
    main()
