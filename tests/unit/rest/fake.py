"""A backend that keeps jobs, drains, mode and events in memory and knows a fabric of two hosts."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from prometheus_client.core import GaugeMetricFamily

from controller.core.caller import Caller
from controller.core.change_number import ChangeNumber
from controller.core.errors import ConflictError, StorageError
from controller.core.events import Event, EventKind
from controller.core.ports.api import Condition, Document, Exposition, JobAnswer, PutOutcome, Under
from controller.core.ports.host_agents import HostReport, PlanId
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import Learning
from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.rest import schemas
from controller.rest.forms import read_form
from controller.rest.readers import read_host_report, read_sightings
from controller.telemetry.instruments import exposition

SHIFT = {
    "period_seconds": 0.2,
    "shift_seconds": 0.1,
    "hold": False,
    "iteration_seconds": 0.2,
    "compatibility": 1.0,
}
LEARNED: dict[str, Any] = {
    "name": "a",
    "hosts": 2,
    "flows": 1,
    "bytes": 5,
    "period_seconds": 0.8,
    "iterations": 7,
    "confidence": 0.9,
    "planned": False,
    "planned_flows": 0,
    "hashed_speed": 0.5,
    "planned_speed": 1.0,
    "seen": "2026-01-02T03:04:05Z",
    "expires": "2026-01-02T03:04:35Z",
    "groups": [{"shape": "flows", "phase": 0, "flows": 1, "hosts": 2, "bytes": 5}],
}
NO_PLACE = {"pod": None, "agg_plane": None, "plane": None}
"""Of a switch without pods and planes."""

SINCE = "2026-01-02T03:04:05Z"
HOST_PLAN: dict[str, Any] = {
    "epoch": 1,
    "digest": "0123456789abcdef",
    "host": "h1",
    "mode": "planned",
    "source": "fd00:fab:0:1::2",
    "decapsulate": [{"segment": "fcbb:bb00:e001::/48", "inner": 4}],
    "destinations": [{"dst": "10.0.1.2", "carrier": "fcbb:bb00:1:e002::"}],
    "flows": [],
}


ENDLESS = 0.125
"""An analysis above this speed ends only with its client."""


def _history(name: str) -> Document:
    series = {"step_seconds": 10, "end": SINCE, "mean": [None, 0.25], "worst": [None, 0.5]}
    return {"id": name, "at": SINCE, "series": [series]}


class Unwritable:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError("a secret of the inside")


class FakeSubscription:
    """Polls; the events are few and the readers are tests."""

    def __init__(self, events: list[Event], at: int) -> None:
        self._events, self._at = events, at
        self.closed = False

    def wait(self, seconds: float) -> Sequence[Event]:
        deadline = time.monotonic() + seconds
        while self._at >= len(self._events) and time.monotonic() < deadline:
            time.sleep(0.01)
        found = self._events[self._at :]
        self._at += len(found)
        return found

    def close(self) -> None:
        self.closed = True


class FakeBackend:
    """Answers with documents of the right shape. Some names make it fail in the ways a backend can:

    ``unavailable`` (not known yet), ``unkept`` (the disk is full), ``broken`` (an exception that nobody expects),
    ``unwritable`` (an error that no answer can be made of),
    ``large`` (a document of several MB) and ``slow`` (it takes a moment).
    """

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.reports: list[tuple[str, HostReport]] = []
        self.by: dict[str, str] = {}
        self.drained: set[str] = set()
        self.enforced: Mode = "planned"
        self.learns: Learning = "observe"
        self.enforcement: str = "per_flow"
        self.events: list[Event] = []
        self.subscriptions: list[FakeSubscription] = []

    def put_job(self, name: str, body: bytes, condition: Condition, caller: Caller) -> PutOutcome:
        try:
            description = orjson.loads(body)
        except ValueError:
            raise InputError("is not JSON") from None
        if not isinstance(description, dict):
            raise InputError("must be an object", value=description)
        if description.get("weight", 1) == -1:
            raise InputError("must be above 0", field="weight", value=-1)
        condition.check(self._revision(name))
        if name == "unkept":
            raise StorageError("the disk is full")
        created = name not in self.bodies
        self.bodies[name] = body
        self.by[name] = caller.name
        self._happened("job", {"job": name})
        return PutOutcome(created, self._answer(name))

    def delete_job(self, name: str, condition: Condition, caller: Caller) -> None:
        condition.check(self._revision(name))
        if self.bodies.pop(name, None) is None:
            raise NotFoundError("job", name)
        self._happened("job", {"job": name, "by": caller.name})

    def job(self, name: str) -> JobAnswer:
        if name == "unavailable":
            raise UnavailableError("the fabric is not known yet", retry_after_seconds=7)
        if name == "broken":
            raise ZeroDivisionError("a secret of the inside")
        if name == "unwritable":
            raise InputError("cannot be quoted", value=Unwritable())
        if name == "large":
            return JobAnswer("1", orjson.dumps({"padding": "x" * 8_000_000}))
        if name == "slow":
            time.sleep(0.3)
        elif name not in self.bodies:
            raise NotFoundError("job", name)
        return self._answer(name)

    def job_shift(self, name: str) -> Document:
        if name not in self.bodies:
            raise NotFoundError("job", name)
        return {"epoch": 3, "shift": SHIFT | {"job": name}}

    def schedule(self) -> Document:
        rows = [SHIFT | {"job": name} for name in sorted(self.bodies)]
        return {"epoch": 3, "schedule": {"slowdown": 1.0, "bound": 1.0, "gap": 0.0, "jobs": rows}}

    def jobs(self) -> Document:
        return {
            "jobs": [
                {
                    **self._origin(name),
                    "weight": 1.0,
                    "collectives": 1,
                    "flows": 1,
                    "bytes": 8,
                    "min_speed": 1.0,
                    "speed": 1.0,
                    "active": True,
                }
                for name in sorted(self.bodies)
            ]
        }

    def plan(self, under: Under = "plan") -> Document:
        return {
            "under": under,
            "mode": self.enforced,
            "enforcement": self.enforcement,
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

    def survive(self, body: bytes, gone: Callable[[], bool]) -> Document:
        form = read_form(body, schemas.SurvivalForm)
        while form.above == ENDLESS and not gone():
            time.sleep(0.01)
        one = {"kinds": [], "names": [], "min_speed": 1.0, "speeds": [1.0], "unroutable": 0, "moved": 0}
        failed = {**one, "kinds": form.kinds, "names": ["spine1"] * len(form.kinds)}
        told = {"above": form.above, "sequence": None, "bears_at_most": None}
        return {"epoch": 2, "jobs": ["a"], "before": one, "failures": [failed], **told}

    def hosts(self) -> Document:
        unknown = dict.fromkeys(("dead_paths", "lost_probes", "slowest_us"))
        row = {"host": "h1", "takes_part": True, "heard_seconds": None, "epoch": None, "confirmed": False, **unknown}
        return {"hosts": [row]}

    def segments(self, host: str, known: PlanId | None, seconds: float, gone: Callable[[], bool]) -> Document | None:
        if host not in ("h1", "h2"):
            raise NotFoundError("host", host)
        if known == PlanId(1, HOST_PLAN["digest"]):
            return None
        return {**HOST_PLAN, "host": host}

    def host_report(self, host: str, body: bytes) -> None:
        if host not in ("h1", "h2"):
            raise NotFoundError("host", host)
        self.reports.append((host, read_host_report(body)))

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
        qp = {"id": "a/dp0/0", "flow": "a/dp0/0", "qp": 0, "qps": 1, "qp_mode": "split"}
        flow = {**qp, "dst": "h2", "dst_ip": "10.0.1.2", "bytes": 8, "pieces": [piece]}
        how = {"mode": self.enforced, "enforcement": self.enforcement}
        return {"host": host, "ip": "10.0.1.1", **how, "epoch": 2, "flows": [flow]}

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

    def metrics(self, accept: str) -> Exposition:
        gauge = GaugeMetricFamily("fairspine_plan_epoch", "Number of the newest plan.", 2)
        return Exposition(*exposition([gauge], accept))

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
        return _history(name)

    def job_history(self, name: str) -> Document:
        if name not in self.bodies:
            raise NotFoundError("job", name)
        return _history(name)

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

    def plans(self, before: int | None, limit: int) -> Document:
        epochs = [epoch for epoch in (2, 1) if before is None or epoch < before]
        shown = epochs[:limit]
        return {"plans": list(map(self._summary, shown)), "next_before": shown[-1] if shown != epochs else None}

    def plan_record(self, epoch: int) -> Document:
        if epoch not in (1, 2):
            raise NotFoundError("plan", str(epoch))
        path = {"src": "h1", "dst": "h2", "udp_src": None, "path": "spine1", "share": 1.0}
        return {**self._summary(epoch), "paths": [path]}

    def rollback(self, epoch: int, caller: Caller) -> Document:
        if self.enforced == "frozen":
            raise ConflictError("the mode is frozen: set it to planned first")
        self.plan_record(epoch)
        return {**self._summary(3), "cause": f"back to {epoch}", "by": caller.name, "rollback_of": epoch}

    def preview(self, body: bytes) -> Document:
        form = read_form(body, schemas.PreviewForm)
        for name in form.delete:
            if name not in self.bodies:
                raise NotFoundError("job", name)
        value = {
            "policy": form.policy or "fair",
            "seed": form.seed or 0,
            "mode": form.mode or self.enforced,
            "enforcement": form.enforcement or self.enforcement,
            "slowest": 1.0,
            "expected": None,
            "most_rules": 3,
            "min_speed": 1.0,
            "min_level": 1.0,
            "bound_split": 1.0,
            "bound_single": 1.0,
            "gap": 0.0,
            "levels": [],
            "flows": 0,
            "unroutable": 0,
        }
        return {
            "epoch": 2,
            "before": value,
            "after": value,
            "moved_count": 0,
            "moved": [],
            "jobs": [{"job": "a", "before": None, "after": 1.0, "before_expected": None, "after_expected": None}],
            "drains": [],
            "still_used": [],
        }

    def trace(self, job: str | None, compare: str | None) -> Document:
        if job is not None and job not in ("gpt3-a", *self.bodies):
            raise NotFoundError("job", job)
        even = {"fim": 0.0, "max_over_mean": 1.0, "cv": 0.0}
        flow = {
            **{name: value for name, value in self._flow("a").items() if name != "paths"},
            "piece": 0,
            "src_rank": None,
            "dst_rank": None,
            "udp_src": 49152,
            "share": 1.0,
            "how": "rules",
            "planned": ["h1->leaf1", "leaf1->h2"],
            "real": ["h1->leaf1", "leaf1->h2"],
            "rate_gbps": None,
            "sure": 1.0,
            "differs": False,
            "why": "",
        }
        layers = [{"layer": name, "links": 1, "flows": even, "bytes": even} for name in ("uplinks", "downlinks")]
        draws = {name: {"mean": value, "min": value, "max": value} for name, value in even.items()}
        compared = {
            "policy": "ecmp",
            "seeds": 1,
            "worst_seed": 0,
            "hot": [],
            "min_speed": draws["max_over_mean"],
            "layers": [{**layer, "flows": draws, "bytes": draws} for layer in layers],
            "plan_min_speed": 1.0,
        }
        return {
            "at": SINCE,
            "epoch": 2,
            "mode": self.enforced,
            "enforcement": self.enforcement,
            "seconds": 0.01,
            "window": None,
            "silent": [],
            "flows": [flow],
            "layers": layers,
            "links": [],
            "hot": [],
            "compare": None if compare is None else compared,
        }

    def see(self, body: bytes) -> Document:
        return {"qps": len(read_sightings(body).qps)}

    def learning(self) -> Document:
        return {"learning": self.learns, "since": SINCE, "by": None}

    def set_learning(self, learning: Learning, caller: Caller) -> Document:
        self.learns = learning
        self._happened("learning", {"learning": learning, "by": caller.name})
        return self.learning()

    def learned(self) -> Document:
        return {"learning": self.learns, "qps": 2, "ignored": 0, "jobs": [LEARNED]}

    def learned_job(self, name: str) -> Document:
        self._check_learned(name)
        return {"summary": LEARNED, "job": {"name": name, "flows": [{"src": "h1", "dst": "h2", "bytes": 5}]}}

    def forget_learned(self, name: str) -> None:
        self._check_learned(name)

    def adopt(self, name: str, caller: Caller) -> PutOutcome:
        self._check_learned(name)
        return self.put_job(name, b"{}", Condition(), caller)

    def _check_learned(self, name: str) -> None:
        if name != LEARNED["name"]:
            raise NotFoundError("learned job", name)

    def mode(self) -> Document:
        return {
            "mode": self.enforced,
            "enforcement": self.enforcement,
            "since": SINCE,
            "by": None,
            "epoch": 2,
        }

    def set_mode(self, mode: Mode | None, enforcement: str | None, caller: Caller) -> Document:
        self.enforced = mode or self.enforced
        self.enforcement = enforcement or self.enforcement
        self._happened("mode", {"mode": self.enforced, "by": caller.name})
        return self.mode()

    def subscribe(self, after: str | None, last: int = 0) -> FakeSubscription:
        at = max(0, len(self.events) - last)
        if after is not None:
            ids = [event.id for event in self.events]
            at = ids.index(after) + 1 if after in ids else 0
        self.subscriptions.append(FakeSubscription(self.events, at))
        return self.subscriptions[-1]

    leader: str | None = None
    """As in ``Backend``; a test sets it."""

    confirmed: bool | UnavailableError = True
    """What ``confirms`` returns or raises."""

    change: ChangeNumber | None = None
    """The last change that it knows; ``None``: a single controller."""

    def knows(self, change: ChangeNumber) -> bool:
        return self.change is None or self.change >= change

    def confirms(self) -> bool:
        if isinstance(self.confirmed, UnavailableError):
            raise self.confirmed
        return self.confirmed

    def cluster(self) -> Document:
        return {
            "name": None,
            "role": "single",
            "term": 0,
            "leader": None,
            "since": None,
            "change": None,
            "replicas": [],
        }

    def step_down(self) -> None:
        pass

    def health(self) -> Document:
        return {
            "status": "ok",
            "reasons": [],
            "degraded_service": [],
            "slowest_job": {"job": None, "speed": None, "unknown": None},
            "active_epoch": 2,
            "version": "0.3.0",
            "mode": self.enforced,
            "enforcement": self.enforcement,
            "switches": {"connected": 2, "expected": 2},
            "agents": None,
            "jobs": len(self.bodies),
            "flows": len(self.bodies),
        }

    def _happened(self, kind: EventKind, data: dict[str, Any]) -> None:
        self.events.append(Event(f"run-{len(self.events)}", 1.5, kind, data))

    def _revision(self, name: str) -> str | None:
        body = self.bodies.get(name)
        return None if body is None else hashlib.sha256(body).hexdigest()[:16]

    def _origin(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "revision": self._revision(name) or "0",
            "changed": SINCE,
            "by": self.by.get(name, "nobody"),
        }

    def _answer(self, name: str) -> JobAnswer:
        return JobAnswer(self._revision(name) or "0", self._job(name))

    def _summary(self, epoch: int) -> dict[str, Any]:
        return {
            "epoch": epoch,
            "at": SINCE,
            "cause": "job a",
            "by": "ops",
            "policy": "fair",
            "seed": 0,
            "mode": "planned",
            "enforcement": "per_flow",
            "fabric_version": "0011223344556677",
            "traffic_version": "8899aabbccddeeff",
            "links_down": [],
            "drained": [],
            "jobs": ["a"],
            "slowest": 1.0,
            "min_speed": 1.0,
            "min_level": 1.0,
            "bound_split": 1.0,
            "bound_single": 1.0,
            "gap": 0.0,
            "seconds": 0.01,
            "flows": 1,
            "moved": 0,
            "unroutable": 0,
            "rollback_of": None,
            "reason": None,
        }

    def _job(self, name: str) -> dict[str, Any]:
        return {
            **self._origin(name),
            "weight": 1.0,
            "bytes": 8,
            "min_speed": 1.0,
            "speed": None,
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
