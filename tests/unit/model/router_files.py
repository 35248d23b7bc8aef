"""A fabric file of routers, for tests."""

from __future__ import annotations

from typing import Any


def router_document() -> dict[str, Any]:
    """A fabric of two leaves and a spine with locators and interfaces."""
    leaves = [{"name": f"leaf{n}", "role": "leaf", "kind": "router", "locator": f"fcbb:bb00:{n}::/48"} for n in (1, 2)]
    spine = {"name": "spine1", "role": "spine", "kind": "router", "locator": "fcbb:bb00:f00::/48"}
    return {
        "switches": [*leaves, spine],
        "hosts": [{"name": f"h{n}", "leaf": f"leaf{n}", "interface": "Ethernet0"} for n in (1, 2)],
        "links": [
            {"a": "leaf1", "b": "spine1", "a_interface": "Ethernet4", "b_interface": "Ethernet0"},
            {"a": "spine1", "b": "leaf2", "a_interface": "Ethernet4", "b_interface": "Ethernet4"},
        ],
    }
