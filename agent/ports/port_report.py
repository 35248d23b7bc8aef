"""The ports that a search has learned, as a JSON document and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agent.ports.port_search import PairPorts


def port_document(host: str, ports: Iterable[PairPorts], now: float) -> dict[str, Any]:
    """Return the document; ``seconds`` of a port is how long ago its probes were answered."""
    return {"host": host, "pairs": [_pair(each, now) for each in ports]}


def _pair(ports: PairPorts, now: float) -> dict[str, Any]:
    return {
        "dst": str(ports.dst),
        "map": ports.map,
        "state": ports.state,
        "ports": [
            {"port": port, "path": path, "seconds": round(now - ports.at[port], 3)}
            for port, path in sorted(ports.path_of.items(), key=lambda item: (item[1], item[0]))
        ],
        "unreachable": sorted(ports.unreachable),
        "strange": [
            {"port": each.port, "answers": [*each.answers], "unreachable": each.unreachable} for each in ports.strange
        ],
        "probes": {"sent": ports.sent, "unanswered": ports.unanswered},
    }


def port_lines(ports: Iterable[PairPorts]) -> Iterator[str]:
    """Yield one line for each path of a destination, and one for whatever is wrong."""
    for each in ports:
        by_path: dict[int, list[int]] = {}
        for port, path in sorted(each.path_of.items()):
            by_path.setdefault(path, []).append(port)
        yield f"{each.dst}: {each.state}, {each.sent} probes, {each.unanswered} without an answer"
        for path, members in sorted(by_path.items()):
            yield f"  path {path}: {', '.join(map(str, members))}"
        for path in sorted(each.unreachable):
            yield f"  path {path}: no port leads over it"
        for strange in each.strange:
            what = "could not forward" if strange.unreachable else "fit no path"
            yield f"  port {strange.port}: answers of {', '.join(strange.answers)} {what}"
