"""The conversation of a port agent with the controller."""

from __future__ import annotations

from typing import Any

from agent.connection.conversation import Conversation, PlanId
from agent.errors import HostAgentError
from agent.ports.port_plan import PortPlan, read_port_plan
from controller.model.errors import InputError


class PortConversation(Conversation[PortPlan]):
    """Asks for which paths ports are wanted, and reports what is known of them."""

    def _ask(self, newest: PlanId | None, report: dict[str, Any] | None) -> Any | None:
        if report is not None:
            self._plans.report(report)
        return self._plans.port_plan(newest)

    def _read(self, document: Any) -> tuple[PortPlan, Any]:
        try:
            return read_port_plan(document), document
        except InputError as error:
            raise HostAgentError(f"the plan cannot be used: {error}") from None
