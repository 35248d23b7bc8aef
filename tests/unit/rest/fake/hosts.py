"""Hosts and their agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from controller.core.ports.api import Document
from controller.core.ports.host_agents import AgentHas, HostAnswer, HostAnswers, HostRequest, PlanId
from controller.model.errors import InputError, NotFoundError
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from controller.rest.readers import read_host_report
from tests.unit.rest.fake.state import FakeState

HOST_PLAN: dict[str, Any] = {
    "epoch": 1,
    "digest": "0123456789abcdef",
    "host": "h1",
    "mode": "planned",
    "source": "fd00:fab:0:1::2",
    "decapsulate": [{"segment": "fcbb:bb00:e001::/48", "inner": 4}],
    "destinations": [{"dst": "10.0.1.2", "carrier": "fcbb:bb00:1:e002::"}],
    "destinations_digest": "fedcba9876543210",
    "flows": [],
    "probes": ["fcbb:bb00:c000:2:f001::"],
    "bypass_probes": ["fcbb:bb00:c000:f001::"],
}

PORT_PLAN: dict[str, Any] = {
    "epoch": 1,
    "digest": "0123456789abcdef",
    "host": "h1",
    "mode": "planned",
    "source": "10.0.1.1",
    "first_port": 49152,
    "last_port": MAX_PORT,
    "dst_port": ROCE_PORT,
    "routers": [
        {"name": "spine1", "addresses": ["10.255.1.1"]},
        {"name": "spine2", "addresses": ["10.255.1.2", "10.255.2.2"]},
    ],
    "budget": {"burst": 6, "a_second": 1.0},
    "routes": [{"hops": [2], "paths": [{"path": 0, "routers": ["spine1"]}, {"path": 1, "routers": ["spine2"]}]}],
    "pairs": [
        {
            "dst": "10.0.2.1",
            "routes": 0,
            "wanted": [{"path": 1, "ports": 1}],
            "map": "fedcba9876543210",
            "known": [{"port": 50000, "path": 0}],
        }
    ],
    "flows": [{"dst": "10.0.2.1", "number": 49152, "path": 1}],
    "connections": [{"dst": "10.0.2.1", "path": 0, "comes_back": True}],
    "samples": {"a_second": 1000.0},
    "check_seconds": 10.0,
    "report_seconds": 0.1,
}

PATHS = [{"leaves": [1], "paths": [[49152, 0]]}]
HOST_TABLE: dict[str, Any] = {
    "digest": "0011223344556677",
    "block": "fcbb:bb00::/32",
    "leaves": [[0, 1], [1, 2]],
    "hosts": [["10.0.1.1", 0, 0, 57345], ["10.0.1.2", 1, 0, 57346], ["10.0.2.1", 2, 1, 57345]],
}


class FakeHosts(FakeState):
    """Hosts and their agents."""

    def hosts(self) -> Document:
        unknown = dict.fromkeys(("dead_paths", "lost_probes", "slowest_us", "counters", "pacing", "ports"))
        row = {"host": "h1", "takes_part": True, "heard_seconds": None, "epoch": None, "confirmed": False, **unknown}
        return {"hosts": [row]}

    def segments(self, host: str, has: AgentHas, seconds: float, gone: Callable[[], bool]) -> Document | None:
        if host not in ("h1", "h2"):
            raise NotFoundError("host", host)
        if has.plan == PlanId(1, HOST_PLAN["digest"]):
            return None
        if has.form == "ports":
            return {**PORT_PLAN, "host": host}
        same = has.destinations == HOST_PLAN["destinations_digest"]
        by_table = {"number": 0, "table_digest": HOST_TABLE["digest"], "paths": None if same else PATHS}
        rows: list[Any] | None = [] if has.by_table else HOST_PLAN["destinations"]
        own = {"host": host, "destinations": None if same else rows}
        return {**HOST_PLAN, **own, **(by_table if has.by_table else {})}

    def circuits(self) -> Document:
        return {
            "epoch": 3,
            "stage": {"number": 1, "of": 2, "doing": "circuits are dark"},
            "trouble": None,
            "lossy": None,
            "panels": [{"name": "ocs1", "dpid": 1, "connected": True, "confirmed": True, "error": None, "circuits": 2}],
            "shards": [
                {
                    "jobs": ["a"],
                    "servers": ["h1", "h2"],
                    "seconds": 1.0,
                    "seconds_now": None,
                    "ideal_seconds": 1.0,
                    "bound_seconds": 1.0,
                    "over_ideal": 1.0,
                    "over_bound": 1.0,
                    "tax": 1.0,
                }
            ],
            "circuits": [
                {
                    "switch": "ocs1",
                    "in_port": 1,
                    "out_port": 2,
                    "from": "h1",
                    "from_nic": 0,
                    "to": "h2",
                    "to_nic": 0,
                    "state": "failed",
                    "reason": "port 2 is down",
                    "bytes": 10,
                }
            ],
            "servers": [{"server": "h1", "needed": True, "heard_seconds": 0.5, "confirmed": True}],
        }

    def server_table(self, host: str, has: str, seconds: float, gone: Callable[[], bool]) -> Document | None:
        return {
            "host": host,
            "step": "64c1f00d.4",
            "address": "10.0.1.1",
            "macs": ["02:46:53:00:00:01"],
            "neighbours": [{"address": "10.0.2.128", "mac": "02:46:53:00:00:02", "nic": 0}],
            "routes": [
                {"to": "10.0.2.128/32", "via": None, "nic": 0},
                {"to": "10.0.2.0/24", "via": "10.0.2.128", "nic": 0},
            ],
        }

    def host_samples(self, host: str, after: int, seconds: float, gone: Callable[[], bool]) -> Document | None:
        if host not in ("h1", "h2"):
            raise NotFoundError("host", host)
        row = {"dst": "10.0.2.1", "port": 50000, "router": "spine1", "seconds": 0.5}
        return None if after == 7 else {"number": 7, "one_in": 100, "samples": [row]}

    def host_table(self, host: str) -> Document:
        if host not in ("h1", "h2"):
            raise NotFoundError("host", host)
        return HOST_TABLE

    def host_report(self, host: str, body: bytes) -> None:
        if host not in ("h1", "h2"):
            raise NotFoundError("host", host)
        self.reports.append((host, read_host_report(body)))

    def host_requests(self, requests: Sequence[HostRequest]) -> HostAnswers:
        answers: list[HostAnswer] = []
        for each in requests:
            try:
                if each.report is not None:
                    self.host_report(each.host, each.report)
                plan = self.segments(each.host, each.has, 0.0, bool) if each.asks else None
                answers.append(None if plan is None else orjson.dumps(plan))
            except (InputError, NotFoundError) as error:
                answers.append(error)
        return HostAnswers("0123456789abcdef-1", answers)

    def plans_version(self, known: str, seconds: float, gone: Callable[[], bool]) -> str:
        return "0123456789abcdef-1"

    def routes(self, host: str, round_trip_seconds: float | None = None) -> Document:
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
        if round_trip_seconds is not None:
            piece["window_bytes"] = round(100e9 / 8 * round_trip_seconds)
        qp = {"id": "a/dp0/0", "flow": "a/dp0/0", "qp": 0, "qps": 1, "qp_mode": "split"}
        flow = {**qp, "dst": "h2", "dst_ip": "10.0.1.2", "bytes": 8, "pieces": [piece]}
        how = {"mode": self.enforced, "enforcement": self.enforcement}
        return {"host": host, "ip": "10.0.1.1", **how, "epoch": 2, "flows": [flow]}
