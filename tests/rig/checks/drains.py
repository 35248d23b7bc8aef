"""The epoch of the plan that switches have confirmed."""

from __future__ import annotations

from tests.rig.controller import Controller


def enforced(controller: Controller) -> int | None:
    answer = controller.get("/v1/plan")
    return answer.body["active"]["epoch"] if answer.status == 200 and answer.body["active"] else None
