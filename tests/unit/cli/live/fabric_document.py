"""A fabric as the controller tells it."""

from __future__ import annotations

from tests.unit.rest.fake import NO_PLACE, FakeBackend

CABLE = {"gbps": 100.0, "a_port": 1, "b_port": 1}
FABRIC = {
    **dict(FakeBackend().fabric()),  # type: ignore[arg-type]
    "switches": [
        {"name": "leaf1", "role": "leaf", "dpid": 1, "connected": True, **NO_PLACE},
        {
            "name": "spine1",
            "role": "spine",
            "dpid": 2,
            "connected": False,
            "pod": None,
            "agg_plane": None,
            "plane": None,
        },
    ],
    "links": [
        {"id": "leaf1-spine1", "a": "leaf1", "b": "spine1", "up": True, "drained": True, **CABLE},
        {"id": "leaf1-spine1:2", "a": "leaf1", "b": "spine1", "up": False, "drained": False, **CABLE},
    ],
    "cabling": {
        "matches": False,
        "findings": [{"kind": "missing switch", "subject": "spine1", "text": "spine1 is not connected"}],
        "hosts_unplaced": [],
    },
}
