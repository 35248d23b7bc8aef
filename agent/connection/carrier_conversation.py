"""The conversation of an agent that makes packets take their paths by carriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.connection.controller_connection import ControllerConnection
from agent.connection.conversation import Conversation, PlanId
from agent.errors import HostAgentError
from agent.plans.host_plan import HostPlan, read_plan
from agent.plans.host_table import ReachableHosts, read_table
from controller.model.errors import InputError

FEWEST_CHANGES = 1000
"""Changes of flows that are taken, whatever the plan has, before a whole plan is asked for."""


class CarrierConversation(Conversation[HostPlan]):
    """Keeps what plans leave out where it is as before: flows, destinations, and the table of hosts.

    Changes are kept one after the other (``SavedFiles``); so when they are more than a plan has flows, the next plan is
    asked for as a whole.
    """

    def __init__(
        self,
        host: str,
        plans: ControllerConnection,
        reports: ControllerConnection,
        take: Callable[[HostPlan, Any], None],
    ) -> None:
        """Store the connections; ``take`` gets each new plan, and its document, in a thread of its own."""
        super().__init__(host, plans, reports, take)
        self._destinations: tuple[str, Any] = "", None
        self._table: ReachableHosts | None = None
        self._last_plan: HostPlan | None = None
        self._n_changes = 0

    def _ask(self, newest: PlanId | None, report: dict[str, Any] | None) -> Any | None:
        own = self._last_plan
        changes = own is not None and own.id == newest and self._n_changes <= max(FEWEST_CHANGES, len(own.flows))
        return self._plans.plan(newest, destinations=self._destinations[0], report=report, changes=changes)

    def _whole(self, document: Any) -> Any:
        """Return a document with all destinations; keep those that it has.

        It leaves them out where this agent has them, and usual ones follow from the table of hosts. Changes of a plan
        leave them out where that plan has them.
        """
        if not isinstance(document, dict) or not isinstance(digest := document.get("destinations_digest"), str):
            return document
        own = document.get("destinations")
        if own is None and document.get("changes_of") is not None:
            rows = None
            if digest != self._destinations[0]:
                raise InputError("is that of other destinations", field="destinations_digest", value=digest)
        elif own is None and digest == self._destinations[0]:
            rows = self._destinations[1]
        elif own is not None and "table_digest" in document:
            rows = self._rows(document, own)
        else:
            rows = own
        if rows is not None or digest != self._destinations[0]:
            self._destinations = digest, rows
        added = ("number", "table_digest", "paths")
        return {**{name: value for name, value in document.items() if name not in added}, "destinations": rows}

    def _rows(self, document: dict[str, Any], own: Any) -> list[Any]:
        """Return the destinations of a plan by the table, which is asked for if it is another one than before."""
        if self._table is None or self._table.digest != document["table_digest"]:
            self._table = read_table(self._plans.table())
        if self._table.digest != document["table_digest"]:
            raise InputError("is that of another table of hosts", field="table_digest", value=document["table_digest"])
        usual = self._table.rows(document.get("number", -1), document.get("paths"))
        given = {row.get("dst"): row for row in own} if isinstance(own, list) else {}
        return [given.get(row["dst"], row) for row in usual]

    def _read(self, document: Any) -> tuple[HostPlan, Any]:
        """Return a plan, and its document with all destinations, or that of changes."""
        try:
            whole = self._whole(document)
            plan = read_plan(whole, self._last_plan)
        except InputError as error:
            # The next one is to be whole.
            self._destinations, self._last_plan = ("", None), None
            raise HostAgentError(f"the plan cannot be used: {error}") from None
        self._last_plan = plan
        self._n_changes = 0 if plan.changes is None else self._n_changes + len(plan.changes.keys)
        return plan, whole
