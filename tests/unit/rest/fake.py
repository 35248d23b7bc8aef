"""A backend that keeps jobs in memory and knows a fabric of two hosts."""

from __future__ import annotations

import time
from typing import Any

import orjson

from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.rest.backend import Document, PutOutcome

SINCE = "2026-01-02T03:04:05Z"


class FakeBackend:
    """Answers with documents of the right shape. Some names make it fail in the ways a backend can:

    ``unavailable`` (not known yet), ``broken`` (an exception that nobody expects), ``large`` (a document of several
    MB) and ``slow`` (it takes a moment).
    """

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}

    def put_job(self, name: str, body: bytes) -> PutOutcome:
        try:
            description = orjson.loads(body)
        except ValueError:
            raise InputError("is not JSON") from None
        if not isinstance(description, dict):
            raise InputError("must be an object", value=description)
        if description.get("weight", 1) == -1:
            raise InputError("must be above 0", field="weight", value=-1)
        created = name not in self.bodies
        self.bodies[name] = body
        return PutOutcome(created, orjson.dumps(self._job(name)))

    def delete_job(self, name: str) -> None:
        if self.bodies.pop(name, None) is None:
            raise NotFoundError("job", name)

    def job(self, name: str) -> Document:
        if name == "unavailable":
            raise UnavailableError("the fabric is not known yet", retry_after_seconds=7)
        if name == "broken":
            raise ZeroDivisionError("a secret of the inside")
        if name == "large":
            return orjson.dumps({"padding": "x" * 8_000_000})
        if name == "slow":
            time.sleep(0.3)
        elif name not in self.bodies:
            raise NotFoundError("job", name)
        return self._job(name)

    def jobs(self) -> Document:
        return {
            "jobs": [
                {
                    "name": name,
                    "weight": 1.0,
                    "collectives": 1,
                    "flows": 1,
                    "bytes": 8,
                    "min_speed": 1.0,
                    "active": True,
                }
                for name in sorted(self.bodies)
            ]
        }

    def plan(self) -> Document:
        return {
            "computed": {"epoch": 2, "since": SINCE},
            "active": None,
            "plan": {
                "policy": "greedy",
                "seconds": 0.001,
                "min_speed": 1.0,
                "min_level": 1.0,
                "bound_split": 1.0,
                "bound_single": None,
                "gap": 0.0,
                "levels": [{"level": 1.0, "bound": 1.0, "collectives": 1}],
                "unroutable": [],
                "collectives": [self._collective("a")],
                "flows": [self._flow("a")],
                "links": [{"id": "h1->leaf1", "gbps": 100.0, "load_gbps": 100.0}],
            },
        }

    def routes(self, host: str) -> Document:
        if host not in ("h1", "h2"):
            raise NotFoundError("host", host)
        piece = {
            "path": None,
            "share": 1.0,
            "rate_gbps": 100.0,
            "links": ["h1->leaf1", "leaf1->h2"],
            "labels": [],
            "udp_src": 49152,
        }
        flow = {"id": "a/dp0/0", "dst": "h2", "dst_ip": "10.0.1.2", "bytes": 8, "pieces": [piece]}
        return {"host": host, "ip": "10.0.1.1", "epoch": 2, "flows": [flow]}

    def links(self) -> Document:
        return {"links": [{"id": "h1->leaf1", "gbps": 100.0, "load_gbps": 0.0, "up": True}]}

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
        }
        cable = {
            "id": "leaf1-spine1",
            "a": "leaf1",
            "b": "spine1",
            "gbps": 100.0,
            "up": True,
            "a_port": 1,
            "b_port": 1,
        }
        return {
            "source": "file",
            "version": "0011223344556677",
            "switches": [{"name": "leaf1", "role": "leaf", "dpid": 1, "connected": True}],
            "hosts": [host],
            "links": [cable],
            "cabling": {
                "matches": False,
                "findings": [{"kind": "missing", "subject": "leaf1-spine2", "text": "leaf1-spine2 is missing"}],
                "hosts_unplaced": [],
            },
        }

    def health(self) -> Document:
        return {
            "status": "ok",
            "reasons": [],
            "version": "0.1.0",
            "switches": {"connected": 2, "expected": 2},
            "jobs": len(self.bodies),
            "flows": len(self.bodies),
        }

    def _job(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "weight": 1.0,
            "bytes": 8,
            "min_speed": 1.0,
            "epoch": 2,
            "active": False,
            "unroutable": [],
            "collectives": [self._collective(name)],
            "flows": [self._flow(name)],
        }

    def _collective(self, job: str) -> dict[str, Any]:
        return {
            "job": job,
            "name": "dp0",
            "speed": 1.0,
            "ideal_seconds": 0.1,
            "seconds": 0.1,
            "slowdown": 1.0,
        }

    def _flow(self, job: str) -> dict[str, Any]:
        path = {"share": 1.0, "links": ["h1->leaf1", "leaf1->h2"]}
        return {
            "id": f"{job}/dp0/0",
            "job": job,
            "collective": "dp0",
            "src": "h1",
            "dst": "h2",
            "bytes": 8,
            "paths": [path],
        }
