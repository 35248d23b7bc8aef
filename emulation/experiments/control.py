"""The controller under test: a ``ryu-manager`` in the lab, and its HTTP interface."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from emulation.controller_process import ControllerProcess, controller_command
from emulation.errors import LabError
from emulation.experiments.request import Draw, ExperimentRequest
from emulation.lab import DEFAULT_CONTROLLER, Lab
from emulation.lab.base import BaseLab
from emulation.processes import Popen

START_SECONDS = 900.0
"""Until the controller answers: after an installation it compiles kernels first, on a busy machine for minutes.
One that has ended is noticed at once."""
READY_SECONDS = 120.0
REQUEST_SECONDS = 60.0


class ExperimentController:
    """``ryu-manager --fabric FABRIC --policy POLICY --seed SEED ...``, which keeps nothing, until ``with`` ends."""

    def __init__(
        self,
        lab: BaseLab,
        request: ExperimentRequest,
        draw: Draw,
        more: Sequence[str] = (),
        *,
        popen: Popen = subprocess.Popen,
    ) -> None:
        """Start the controller process for one draw of an experiment by ``popen``; ``more`` are further options."""
        options = ["--fabric", str(request.fabric), "--policy", draw.routing, "--seed", str(draw.seed)]
        options += ["--policy-options", ",".join(draw.options)]
        options += ["--enforcement", request.enforcement, "--store", "memory"]
        options += ["--default-qps", str(request.qps), "--default-qp-mode", request.qp_mode]
        options += more
        self._lab = lab
        self._reasons: list[str] = []
        self._process = ControllerProcess(
            controller_command(*options, openflow_port=DEFAULT_CONTROLLER[1]),
            functools.partial(lab.spawn, popen=popen),
            timeout=REQUEST_SECONDS,
        ).start(wait=False)

    def __enter__(self) -> ExperimentController:
        """Return the controller."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the controller process."""
        self._process.stop(5.0)

    def wait_ready(self) -> None:
        """Wait until the network matches the fabric file and every switch has confirmed its rules.

        Raises:
            LabError: it took too long; names the reasons that the controller gives.
        """
        self._wait(self._process.answers, "the controller answers", START_SECONDS)
        if isinstance(self._lab, Lab):
            self._lab.wait_connected()
        self._wait(self._as_intended, "the network is as intended and its rules are active")

    def push(self, name: str, document: Any) -> None:
        """Push a job."""
        self._ask("PUT", f"/v1/jobs/{quote(name, safe='')}", document)

    def wait_active(self, check: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Wait until every switch, or agent, has confirmed the newest plan, and return the plan.

        ``check`` is called meanwhile; it raises an error where waiting is in vain.
        """

        def is_active() -> bool:
            check()
            return self._process.plan_is_active()

        self._wait(is_active, "every switch has confirmed the plan")
        plan: dict[str, Any] = self._ask("GET", "/v1/plan")["plan"]
        return plan

    def active_epoch(self) -> int:
        """Return the epoch of the plan that every switch has confirmed last; 0: there is none."""
        active = self._ask("GET", "/v1/plan")["active"]
        return 0 if active is None else int(active["epoch"])

    def routes(self, host: str) -> dict[str, Any]:
        """Return the routes of a host: its flows and their UDP source ports."""
        document: dict[str, Any] = self._ask("GET", f"/v1/routes?host={quote(host, safe='')}")
        return document

    def see(self, sightings: Mapping[str, Any]) -> None:
        """Report what queue pairs have sent."""
        self._ask("POST", "/v1/sightings", sightings)

    def learned(self) -> list[dict[str, Any]]:
        """Return the learned jobs, each with its document; one that is forgotten meanwhile is left out."""
        names = [job["name"] for job in self._ask("GET", "/v1/learned")["jobs"]]
        answers = [self._process.ask("GET", f"/v1/learned/{quote(name, safe='')}") for name in names]
        return [answer.body for answer in answers if answer.status == HTTPStatus.OK]

    def set_learning(self, value: str) -> None:
        """Change what becomes of learned jobs: ``observe`` or ``act``."""
        self._ask("PUT", "/v1/learning", {"learning": value})

    def all_planned(self) -> bool:
        """Return whether there are learned jobs, all of them are planned, and every switch has confirmed the plan."""
        jobs = self._ask("GET", "/v1/learned")["jobs"]
        return bool(jobs) and all(job["planned"] for job in jobs) and self._process.plan_is_active()

    def written(self) -> tuple[float, float]:
        """Return when the newest plan was made, and when the last switch confirmed its rules, by the wall clock."""
        states = self._ask("GET", "/v1/plan")
        began, ended = (datetime.fromisoformat(states[name]["since"]).timestamp() for name in ("computed", "active"))
        return began, ended

    def adopt(self, name: str) -> None:
        """Push a learned job."""
        self._ask("POST", f"/v1/learned/{quote(name, safe='')}:adopt", b"")

    def delete(self, name: str) -> None:
        """Delete a job."""
        self._ask("DELETE", f"/v1/jobs/{quote(name, safe='')}")

    def _as_intended(self) -> bool:
        health = self._ask("GET", "/healthz")
        self._reasons = health["reasons"]
        return health["status"] == "ok" and bool(self._ask("GET", "/v1/fabric")["cabling"]["matches"])

    def _wait(self, ready: Any, what: str, seconds: float = READY_SECONDS) -> None:
        self._reasons = []
        try:
            self._process.wait_until(ready, what, seconds)
        except LabError as error:
            said = "; ".join(self._reasons)
            raise LabError(f"{error}\n  reasons of the controller: {said}" if said else str(error)) from None

    def _ask(self, method: str, target: str, document: Any = None) -> Any:
        answer = self._process.ask(method, target, document)
        if answer.status >= 400:
            raise LabError(f"{method} {target}: {answer.status}: {_detail(answer.body)}")
        return answer.body


def _detail(body: object) -> str:
    """Return the detail of a problem document (RFC 9457), or the start of any other body."""
    if isinstance(body, dict):
        return str(body.get("detail") or body.get("title") or body)
    return str(body)[:200]
