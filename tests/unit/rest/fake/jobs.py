"""Jobs."""

from __future__ import annotations

import time
from typing import Any

import orjson

from controller.core.caller import Caller
from controller.core.errors import StorageError
from controller.core.ports.api import Condition, Document, JobAnswer, PutOutcome
from controller.model.errors import InputError, NotFoundError, UnavailableError
from tests.unit.rest.fake.state import FakeState, history

SHIFT = {
    "period_seconds": 0.2,
    "shift_seconds": 0.1,
    "hold": False,
    "iteration_seconds": 0.2,
    "compatibility": 1.0,
}


class Unwritable:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError("a secret of the inside")


class FakeJobs(FakeState):
    """Jobs."""

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

    def job_history(self, name: str) -> Document:
        if name not in self.bodies:
            raise NotFoundError("job", name)
        return history(name)

    def _answer(self, name: str) -> JobAnswer:
        return JobAnswer(self._revision(name) or "0", self._job(name))

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
