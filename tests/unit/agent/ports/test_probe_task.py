"""Documents that say what to probe: what is wrong is named."""

from __future__ import annotations

from typing import Any

import pytest

from agent.ports.probe_task import read_task
from controller.model.errors import InputError
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT


def document() -> dict[str, Any]:
    """Ports for two spines."""
    return {
        "host": "h1",
        "source": "10.0.1.1",
        "first_port": 49152,
        "last_port": MAX_PORT,
        "dst_port": ROCE_PORT,
        "routers": [
            {"name": "spine1", "addresses": ["10.255.0.1"]},
            {"name": "spine2", "addresses": ["10.255.0.2", "10.255.1.2"]},
        ],
        "budget": {"burst": 6, "a_second": 1},
        "routes": [{"hops": [2], "paths": [{"path": 0, "routers": ["spine1"]}, {"path": 1, "routers": ["spine2"]}]}],
        "pairs": [
            {
                "dst": "10.0.2.1",
                "routes": 0,
                "wanted": [{"path": 1, "ports": 2}],
                "known": [{"port": 50000, "path": 0}],
            }
        ],
    }


def test_a_document_is_read() -> None:
    task = read_task(document())
    (pair,) = task.pairs
    assert ({**pair.wanted}, {**pair.known}) == ({1: 2}, {50000: 0})
    assert pair.routes.next_routers(()) == {"spine1", "spine2"}
    assert [*task.routers.values()] == ["spine1", "spine2", "spine2"]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("source",), "x", "source: 'x': is not an IP address"),
        (("source",), "fd00::1", "pairs[0].dst: '10.0.2.1': is of another version of IP than fd00::1"),
        (("first_port",), 0, "first_port: 0: is not from 1 to 65535"),
        (("last_port",), 49151, "last_port: 49151: is below first_port, 49152"),
        (("dst_port",), True, "dst_port: True: has the wrong type"),
        (("routers", 1, "addresses", 0), 7, "routers[1].addresses[0]: 7: has the wrong type"),
        (("budget", "burst"), 0, "budget.burst: 0: is not from 1"),
        (("budget", "a_second"), 0, "budget.a_second: 0: is no number of answers a second"),
        (("budget", "share"), "x", "budget.share: 'x': is no number of answers a second"),
        (("routes", 0, "hops"), [], "routes[0].hops"),
        (("routes", 0, "hops"), [3, 2], "are no hop limits that ascend"),
        (("routes", 0, "paths", 0, "routers"), ["spine3"], "routes[0].paths[0].routers"),
        (("routes", 0, "paths", 1, "routers"), ["spine1"], "are those of another path, too"),
        (("pairs", 0, "routes"), 1, "pairs[0].routes: 1: is not from 0 to 0"),
        (("pairs", 0, "wanted", 0, "path"), 2, "pairs[0].wanted[0].path: 2: is no path of these routes"),
        (("pairs", 0, "wanted", 0, "ports"), 0, "pairs[0].wanted[0].ports: 0: is not from 1"),
        (("pairs", 0, "known", 0, "path"), 5, "pairs[0].known[0].path: 5: is no path of these routes"),
        (("pairs",), [document()["pairs"][0]] * 2, "pairs: has a destination twice"),
    ],
)
def test_what_is_wrong_is_named(place: tuple[str | int, ...], value: Any, message: str) -> None:
    changed: Any = document()
    at = changed
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    with pytest.raises(InputError) as refused:
        read_task(changed)
    assert message in str(refused.value)
