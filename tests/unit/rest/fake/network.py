"""The fabric of two hosts, its links and drains."""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.caller import Caller
from controller.core.ports.api import Document, Under
from controller.model.errors import NotFoundError
from tests.unit.rest.fake.state import SINCE, FakeState, history

NO_PLACE = {"pod": None, "agg_plane": None, "plane": None}
"""Of a switch without pods and planes."""


class FakeNetwork(FakeState):
    """The fabric of two hosts, its links and drains."""

    def links(self, under: Under = "plan", since: str | None = None) -> Document:
        link = {"id": "h1->leaf1", "gbps": 100.0, "load_gbps": 0.0, "up": True, "drained": False}
        measured = {"rate_gbps": 25.0, "utilisation": 0.25, "dropped": 0, "errors": None}
        return {
            "under": under,
            "version": "6a0f-p-1",
            "links": [{**link, **measured}],
            "measured": SINCE,
            "period": 5.0,
        }

    def fabric(self) -> Document:
        host = {
            "name": "h1",
            "leaf": "leaf1",
            "gbps": 100.0,
            "ip": "10.0.1.1",
            "mac": "02:00:00:00:01:01",
            "server": "node1",
            "rail": 0,
            "port": 3,
            "up": True,
            "nic": None,
        }
        cable = {
            "id": "leaf1-spine1",
            "a": "leaf1",
            "b": "spine1",
            "gbps": 100.0,
            "up": True,
            "drained": False,
            "a_port": 1,
            "b_port": 1,
        }
        return {
            "source": "file",
            "version": "0011223344556677",
            "switches": [
                {
                    "name": "leaf1",
                    "role": "leaf",
                    "dpid": 1,
                    "connected": True,
                    "pod": None,
                    "agg_plane": None,
                    "plane": None,
                }
            ],
            "hosts": [host],
            "links": [cable],
            "cabling": {
                "matches": False,
                "findings": [{"kind": "missing", "subject": "leaf1-spine2", "text": "leaf1-spine2 is missing"}],
                "hosts_unplaced": [],
            },
        }

    def link_history(self, name: str) -> Document:
        if name not in ("leaf1->spine1", "spine1"):
            raise NotFoundError("link", name)
        return history(name)

    def drainable(self, name: str) -> Document:
        if name not in ("leaf1", "spine1", "leaf1-spine1"):
            raise NotFoundError("link", name)
        return {
            "id": name,
            "kind": "cable" if "-" in name else "leaf" if name == "leaf1" else "spine",
            "drained": name in self.drained,
            "outcome": "not possible" if name in self.drained else "in use",
            "epoch": 2,
            "cables": ["leaf1-spine1"],
            "still_used": ["leaf1-spine1"],
        }

    def drain(self, name: str, drained: bool, caller: Caller) -> Document:
        self.drainable(name)
        (self.drained.add if drained else self.drained.discard)(name)
        self._happened("link", {"id": name, "drained": drained, "by": caller.name})
        return self.drainable(name)

    def drains(self, names: Sequence[str], drained: bool, caller: Caller) -> Document:
        for name in names:
            self.drainable(name)
        changed = [name for name in names if drained != (name in self.drained)]
        links = [self.drain(name, drained, caller) for name in names]
        return {"epoch": 7, "changed": changed, "moved": len(changed), "links": links}
