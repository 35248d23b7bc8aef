"""Plans that were made before. Their documents have the fields of the core's record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import AwareDatetime, Field, create_model

from controller.core.saved import plan_record
from controller.model.choices.enforcement import Mode
from controller.rest.schemas.base import Count, Document, EnforcementName, Epoch, FlowProtocol, Seconds, Share, UdpPort

_OWN_TYPES: Mapping[str, Any] = {
    "epoch": Epoch,
    "at": AwareDatetime,
    "by": Annotated[str | None, Field(description="null if a change of the network was the cause")],
    "mode": Mode,
    "enforcement": EnforcementName,
    "min_speed": Annotated[float, Field(description="planned; 0 if some flow has no path")],
    "gap": Annotated[float | None, Field(description="planned, of the flows that have a path")],
    "slowest": Annotated[
        float | None,
        Field(
            description="speed of the slowest job by the rules for this plan; 0: some flow cannot arrive; null: "
            "switches hash flows, no job uses the network, or the plan is of an earlier version"
        ),
    ],
    "seconds": Seconds,
    "moved": Annotated[Count, Field(description="flows of the previous plan that have another path now")],
    "rollback_of": Epoch | None,
    "reason": Annotated[str | None, Field(description="why, as the caller said (Fairspine-Reason); null: not given")],
}
"""Fields of the record whose value in JSON is narrower than their type says, or that need a description."""

_TYPES: Mapping[Any, Any] = {int: Count, tuple[str, ...]: list[str]}
"""JSON types of the other fields, by type; the rest are as they are."""

_FIELDS: Mapping[str, Any] = {
    name: (_OWN_TYPES.get(name, _TYPES.get(hint, hint)), ...)
    for name, hint in get_type_hints(plan_record.PlanRecord).items()
    if name != "paths"
}

PlanSummary: Any = create_model(
    "PlanSummary",
    __base__=Document,
    __doc__="A plan that was made, and why. ``cause`` is for people; ``by``: the token whose request it was.",
    **_FIELDS,
)


class PlanHistory(Document):
    """Stored plans, newest first. If ``next_before`` is not null, request the next page with ``before=`` this value."""

    plans: list[PlanSummary]
    next_before: Epoch | None


class KeptPath(FlowProtocol):
    """A path of the plan: for the traffic from one host to another with one UDP source port."""

    src: str
    dst: str
    udp_src: UdpPort | None = Field(
        description="null: all traffic between the two hosts whose source ports are unknown"
    )
    path: str = Field(description="path class, such as spine2")
    share: Share


PlanRecord: Any = create_model(
    "PlanRecord",
    __base__=PlanSummary,
    __doc__="A kept plan with its paths through the fabric; traffic within one leaf has none.",
    paths=(list[KeptPath] | None, Field(description="null if only the summary is stored")),
)
