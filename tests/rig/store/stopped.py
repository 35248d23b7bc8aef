"""Uses a store as a running controller does, to be stopped by SIGSTOP. The store's tests run it:

python -m tests.rig.store.stopped URL

It says ``ready`` once it has said to others that it runs. After a line on standard input it commits, and says what came
of that: ``kept``, or the error.
"""

from __future__ import annotations

import sys

from controller.store import postgres
from controller.store.errors import StoreError
from controller.store.store import Store
from tests.rig.store.writer import step


def main() -> None:
    postgres.CLAIM_SECONDS = 0.2
    store = Store.open(sys.argv[1])
    store.check()
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        store.commit(step(1))
    except StoreError as error:
        print(error, flush=True)
    else:
        print("kept", flush=True)


if __name__ == "__main__":
    main()
