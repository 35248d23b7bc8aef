"""Jobs under SimGrid's flow model, its TCP corrections off: plain max-min sharing, to compare the simulator with.

Run by Debian's own Python, which has python3-simgrid: JSON from standard input to standard output.

    {"gbps": [E],
     "flows": [{"bytes": of one run, "links": [indices]}],
     "jobs": [{"start": s, "compute": s, "epochs": n, "groups": [{"delay": s, "repeat": n, "flows": [indices]}]}]}
    ->  {"ended": [F][epochs x repeat], "seconds": real time without reading and setting up}

In each epoch a job computes, and then all its groups begin, each after its delay: the flows of a group run together,
``repeat`` times, with a barrier after each run. The next epoch waits for all groups.
"""

import json
import sys
import time

from simgrid import Actor, Barrier, Comm, Engine, LinkInRoute, NetZone, this_actor

SETTINGS = (
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
    "maxmin/precision:1e-9",
    "surf/precision:1e-12",
)

LATENCY = 1e-9
"""Seconds, the same for every flow: SimGrid shares bandwidth by latency, and requires one above zero."""


def main() -> None:
    """Read a case, run it, write the end of every flow."""
    case = json.load(sys.stdin)
    engine = Engine(["simgrid", "--log=root.thres:critical", *(f"--cfg={setting}" for setting in SETTINGS)])
    zone = NetZone.create_full_zone("all")
    links = [zone.create_link(f"link{e}", [gbps * 1e9 / 8]).seal() for e, gbps in enumerate(case["gbps"])]
    ended: list[list[float]] = [[] for _ in case["flows"]]
    # Every flow has its own two end hosts, joined by the links of its path.
    ends = []
    for f, flow in enumerate(case["flows"]):
        source, sink = (zone.create_host(f"{end}{f}", 1e9).seal() for end in ("from", "to"))
        wire = zone.create_link(f"wire{f}", [1e18])
        wire.set_latency(LATENCY)
        path = [LinkInRoute(wire.seal()), *(LinkInRoute(links[e]) for e in flow["links"])]
        zone.add_route(source.netpoint, sink.netpoint, None, None, path, True)
        ends.append((source, sink, int(flow["bytes"])))

    def run(job: dict, group: dict, barrier: Barrier) -> None:  # type: ignore[type-arg]
        this_actor.sleep_until(job["start"])
        for _ in range(job["epochs"]):
            this_actor.sleep_for(job["compute"] + group["delay"])
            for _ in range(group["repeat"]):
                sent = [Comm.sendto_async(*ends[f]) for f in group["flows"]]
                Comm.wait_all(sent)
                for f, one in zip(group["flows"], sent, strict=True):
                    ended[f].append(one.finish_time)
            barrier.wait()

    where = ends[0][0]
    for j, job in enumerate(case["jobs"]):
        barrier = Barrier(len(job["groups"]))
        for g, group in enumerate(job["groups"]):
            Actor.create(f"job{j}.{g}", where, run, job, group, barrier)
    zone.seal()
    began = time.perf_counter()
    engine.run()
    json.dump({"ended": ended, "seconds": time.perf_counter() - began}, sys.stdout)


main()
