"""Flows under SimGrid's flow model, its TCP corrections off: plain max-min sharing, to hold the simulator against.

Run by Debian's own Python, which has python3-simgrid: JSON from standard input to standard output.

    {"gbps": [E], "flows": [{"start": s, "bytes": n, "links": [indices]}]}  ->  {"ended": [F], "seconds": real time}
"""

import json
import sys
import time

from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone, this_actor

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
"""Seconds, the same for every flow: SimGrid shares in proportion to it, and needs one above zero."""


def main() -> None:
    """Read a case, run it, write when each flow ended."""
    case = json.load(sys.stdin)
    engine = Engine(["simgrid", "--log=root.thres:critical", *(f"--cfg={setting}" for setting in SETTINGS)])
    zone = NetZone.create_full_zone("all")
    links = [zone.create_link(f"link{e}", [gbps * 1e9 / 8]).seal() for e, gbps in enumerate(case["gbps"])]
    ended = [0.0] * len(case["flows"])

    def send(name: str, flow: dict) -> None:  # type: ignore[type-arg]
        this_actor.sleep_until(flow["start"])
        Mailbox.by_name(name).put(0, int(flow["bytes"]))

    def take(name: str, f: int) -> None:
        Mailbox.by_name(name).get()
        ended[f] = Engine.clock

    # Every flow has a sender and a taker of its own, and between them the links that it is meant to take.
    for f, flow in enumerate(case["flows"]):
        source, sink = (zone.create_host(f"{end}{f}", 1e9).seal() for end in ("from", "to"))
        wire = zone.create_link(f"wire{f}", [1e18])
        wire.set_latency(LATENCY)
        path = [LinkInRoute(wire.seal()), *(LinkInRoute(links[e]) for e in flow["links"])]
        zone.add_route(source.netpoint, sink.netpoint, None, None, path, True)
        Actor.create(f"send{f}", source, send, str(f), flow)
        Actor.create(f"take{f}", sink, take, str(f), f)
    zone.seal()
    began = time.perf_counter()
    engine.run()
    json.dump({"ended": ended, "seconds": time.perf_counter() - began}, sys.stdout)


main()
