"""What a controller of packet switches does, and that of an optical fabric does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from controller.core.caller import Caller
from controller.core.errors import ConflictError
from controller.core.ports.api import Document, PutOutcome, Under
from controller.core.ports.host_agents import AgentHas, HostAnswers, HostRequest
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import Learning


def _refuse() -> NoReturn:
    raise ConflictError("the fabric is one of optical circuits, which /v1/circuits shows; there is no such thing on it")


class NoPacketSwitches:
    """The operations of ``controller.core.ports.api.Backend`` that need packet switches; all are refused."""

    def job_shift(self, name: str) -> Document:
        """Refuse."""
        _refuse()

    def job_history(self, name: str) -> Document:
        """Refuse."""
        _refuse()

    def schedule(self) -> Document:
        """Refuse."""
        _refuse()

    def link_history(self, name: str) -> Document:
        """Refuse."""
        _refuse()

    def drainable(self, name: str) -> Document:
        """Refuse."""
        _refuse()

    def drain(self, name: str, drained: bool, caller: Caller) -> Document:
        """Refuse."""
        _refuse()

    def drains(self, names: Sequence[str], drained: bool, caller: Caller) -> Document:
        """Refuse."""
        _refuse()

    def plan(self, under: Under = "plan") -> Document:
        """Refuse."""
        _refuse()

    def plan_record(self, epoch: int) -> Document:
        """Refuse."""
        _refuse()

    def rollback(self, epoch: int, caller: Caller) -> Document:
        """Refuse."""
        _refuse()

    def preview(self, body: bytes) -> Document:
        """Refuse."""
        _refuse()

    def survive(self, body: bytes, gone: Callable[[], bool]) -> Document:
        """Refuse."""
        _refuse()

    def routes(self, host: str, round_trip_seconds: float | None = None) -> Document:
        """Refuse."""
        _refuse()

    def hosts(self) -> Document:
        """Return no agents of hosts: those of servers are in ``circuits``."""
        return {"hosts": []}

    def segments(self, host: str, has: AgentHas, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Refuse."""
        _refuse()

    def host_samples(self, host: str, after: int, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Refuse."""
        _refuse()

    def host_table(self, host: str) -> Document:
        """Refuse."""
        _refuse()

    def host_report(self, host: str, body: bytes) -> None:
        """Refuse."""
        _refuse()

    def host_requests(self, requests: Sequence[HostRequest]) -> HostAnswers:
        """Refuse."""
        _refuse()

    def plans_version(self, known: str, seconds: float, gone: Callable[[], bool]) -> str:
        """Refuse."""
        _refuse()

    def trace(self, job: str | None, compare: str | None) -> Document:
        """Refuse."""
        _refuse()

    def see(self, body: bytes) -> Document:
        """Refuse."""
        _refuse()

    def learning(self) -> Document:
        """Refuse."""
        _refuse()

    def set_learning(self, learning: Learning, caller: Caller) -> Document:
        """Refuse."""
        _refuse()

    def learned(self) -> Document:
        """Return no learned jobs."""
        return {"learning": "off", "qps": 0, "ignored": 0, "jobs": []}

    def learned_job(self, name: str) -> Document:
        """Refuse."""
        _refuse()

    def forget_learned(self, name: str) -> None:
        """Refuse."""
        _refuse()

    def adopt(self, name: str, caller: Caller) -> PutOutcome:
        """Refuse."""
        _refuse()

    def mode(self) -> Document:
        """Refuse."""
        _refuse()

    def set_mode(self, mode: Mode | None, enforcement: str | None, caller: Caller) -> Document:
        """Refuse."""
        _refuse()

    def step_down(self) -> None:
        """Refuse."""
        raise ConflictError("this controller is in no cluster")

    def plans(self, before: int | None, limit: int) -> Any:
        """Return no history: plans of circuits are not kept."""
        return {"plans": [], "next_before": None}
