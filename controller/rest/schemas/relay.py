"""What a replica of a cluster that does not lead asks the leader for its agents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controller.rest.schemas.base import Document, Epoch, Form
from controller.rest.schemas.hosts import LONGEST_ADDRESS, LONGEST_NAME, HostPlanDocument, HostPortPlan

LONGEST_RELAYED = 1 << 20
"""Characters of a report that is relayed with others."""
MOST_RELAYED = 1000
"""Requests of agents in one request of a replica."""
LONGEST_AUTHORIZATION = 4096


class RelayedRequest(Form):
    """What an agent has asked a replica that does not lead: the parameters of its request, and its report."""

    host: Annotated[str, Field(max_length=LONGEST_NAME)]
    authorization: Annotated[str, Field(max_length=LONGEST_AUTHORIZATION)] | None = Field(
        None, description="the header of its request; null: it has none"
    )
    after: Epoch | None = None
    digest: Annotated[str, Field(max_length=LONGEST_ADDRESS)] = ""
    destinations: Annotated[str, Field(max_length=LONGEST_ADDRESS)] = ""
    form: Literal["rows", "table", "changes", "ports"] = "rows"
    report: Annotated[str, Field(max_length=LONGEST_RELAYED)] | None = Field(
        None, description="the body of POST /v1/hosts/{host}/report, as text; null: it reports nothing"
    )
    asks: bool = Field(True, description="whether it wants another plan; else it only reports")


class RelayForm(Form):
    """Requests of agents, which a replica that does not lead sends together."""

    requests: Annotated[list[RelayedRequest], Field(max_length=MOST_RELAYED)]


class RelayedAnswer(Document):
    """The answer to one of them."""

    status: Literal["plan", "none", "refused"] = Field(
        description="plan: another one than the agent has; none: there is no other; refused: send its request by itself"
    )
    plan: HostPlanDocument | HostPortPlan | None


class PlansVersion(Document):
    """The version of the plans of all hosts: while it is the same, the same requests have the same answers."""

    version: str


class RelayAnswers(PlansVersion):
    """The answers to the requests of agents, in the order of these."""

    answers: list[RelayedAnswer]
