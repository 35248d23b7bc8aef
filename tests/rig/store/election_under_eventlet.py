"""Replicas that resign while they beat, as at the end of a controller: everything patched as Ryu does it. A program.

Each of many replicas on the database of the argument beats in worker threads, and resigns in the main one. Prints the
last term.
"""

from __future__ import annotations

import sys

from controller import ryu_compat

ryu_compat.prepare()
from ryu.lib import hub  # noqa: E402

hub.patch(thread=True)
from ryu.cmd import manager  # noqa: E402

assert manager is not None  # its import patches the rest

from eventlet import tpool  # noqa: E402

from controller.core.cluster_standing import ClusterSettings, ReplicaEntry  # noqa: E402
from controller.store.election import Election  # noqa: E402
from controller.store.errors import StoreError  # noqa: E402
from controller.store.store import Store  # noqa: E402

REPLICAS = 10


def main() -> None:
    url = sys.argv[1]
    Store.open(url, replica="first").close()
    term = 0
    for number in range(REPLICAS):
        name = f"replica{number}"
        election = Election(url, ClusterSettings("a", 60.0, ReplicaEntry(name, f"http://{name}", "1")), fabric="")
        term = tpool.execute(election.beat).term
        ends: list[bool] = []

        def beat(election: Election = election, ends: list[bool] = ends) -> None:
            while not ends:
                try:
                    tpool.execute(election.beat)
                except StoreError:
                    hub.sleep(0.001)

        beating = hub.spawn(beat)
        hub.sleep(0.002 * number)
        election.resign()
        ends.append(True)
        hub.joinall([beating])
        election.resign()
    print(term, flush=True)


if __name__ == "__main__":
    main()
