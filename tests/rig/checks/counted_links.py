"""What links of an experiment carried, against what its flows sent."""

from __future__ import annotations

from typing import Any


def assert_links_carried_their_flows(run: dict[str, Any], part: float) -> None:
    """See that every flow took its own links only, and that each link carried the bytes of its flows.

    Args:
        run: of the document of an experiment.
        part: of the smallest flow that may come besides, on any link: acknowledgements and probes.
    """
    carried = dict.fromkeys((link["id"] for link in run["links"]), 0)
    for flow in run["flows"]:
        assert flow["packets"] > 0
        assert flow["packets_elsewhere"] == 0
        for link in flow["links"]:
            carried[link] += flow["bytes"]
    for link in run["links"]:
        # A whole flow that came or went would be far more.
        assert abs(link["bytes"] - carried[link["id"]]) < part * min(flow["bytes"] for flow in run["flows"])
