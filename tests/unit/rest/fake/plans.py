"""Plans, their history, previews, failures and traces."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from controller.core.caller import Caller
from controller.core.errors import ConflictError
from controller.core.ports.api import Document, Under
from controller.model.errors import NotFoundError
from controller.rest import schemas
from controller.rest.forms import read_form
from tests.unit.rest.fake.state import SINCE, FakeState

ENDLESS = 0.125
"""An analysis above this speed ends only with its client."""


class FakePlans(FakeState):
    """Plans, their history, previews, failures and traces."""

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

    def survive(self, body: bytes, gone: Callable[[], bool]) -> Document:
        form = read_form(body, schemas.SurvivalForm)
        while form.above == ENDLESS and not gone():
            time.sleep(0.01)
        one = {"kinds": [], "names": [], "min_speed": 1.0, "speeds": [1.0], "unroutable": 0, "moved": 0}
        failed = {**one, "kinds": form.kinds, "names": ["spine1"] * len(form.kinds)}
        told = {"above": form.above, "sequence": None, "bears_at_most": None}
        return {"epoch": 2, "jobs": ["a"], "before": one, "failures": [failed], **told}

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
