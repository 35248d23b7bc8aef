"""A controller that does nothing but push jobs, to be killed at any moment. The store's tests run it as a program.

For each line of standard input, a URL, it forks a child that opens this store and commits ``step`` after ``step``,
and says so on standard output: ``pid N`` first, then each number once it is acknowledged. ``ended`` follows the child's
end. Everything is imported before the fork, so that starting takes no time.
"""

from __future__ import annotations

import os
import sys
import time
import traceback

import numpy as np

from controller.core.desired_state import UNPLACED, AdmittedJob
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import ModeSetting, StateChange
from controller.model.traffic import FIRST_PORT, LAST_PORT
from controller.routing import PreviousPlan
from controller.store.errors import StoreError
from controller.store.store import Store

PLANS_KEPT = 5


def step(number: int) -> StateChange:
    """The change that leads from epoch ``number`` - 1 to ``number``: jobs come, change and go, and each has a plan."""
    rng = np.random.default_rng(number)
    document = rng.bytes(int(rng.integers(1, 30_000)))
    ports = rng.integers(FIRST_PORT, LAST_PORT + 1, 20).astype(np.int32)
    job = AdmittedJob(f"job{number % 7}", document, str(number), number % 3, 0.0, "me", ports, None, UNPLACED)
    path = rng.integers(0, 9, 500).astype(np.int32)
    paths = PreviousPlan(("h1",), ("spine1",), rng.integers(0, 2**62, 500), path, rng.random(500))
    plan = PlanRecord(
        number,
        float(number),
        "a job",
        "me",
        "fair",
        0,
        "planned",
        "f",
        str(number),
        (),
        (),
        (job.name,),
        1.0,
        1.0,
        1.0,
        None,
        0.0,
        0.1,
        500,
        0,
        0,
        None,
        paths,
    )
    return StateChange(
        put=(job,),
        deleted=(f"job{(number + 3) % 7}",),
        drained=frozenset({f"spine{number % 4}"}) if number % 2 else None,
        mode=ModeSetting("frozen", float(number), "me") if number % 5 == 0 else None,
        plans=(plan,),
    )


def committed(store: Store, number: int) -> bool:
    """Whether it was kept; what was refused has changed nothing, and is tried again."""
    try:
        store.commit(step(number))
    except StoreError as error:
        if "removed" not in str(error) and "opened" not in str(error):
            raise
        return False
    return True


def write(url: str) -> None:
    """Go on where the store ends, for ever."""
    os.write(1, b"pid %d\n" % os.getpid())
    store = Store.open(url, plans_kept=PLANS_KEPT)
    number = store.load().epoch
    while True:
        number += 1
        while not committed(store, number):
            time.sleep(0.001)
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
