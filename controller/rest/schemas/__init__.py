"""The documents that the HTTP interface takes and answers with.

Units: bytes, Gbit/s, seconds, as everywhere; times of day are UTC (RFC 3339). ``None`` means not known or not
applicable, never zero. An *epoch* is the number of a plan, counted up by the controller.
"""

from __future__ import annotations

from controller.rest.schemas.base import JOB_NAME, LARGEST_EPOCH, MOST_PLANS, Document, Form, JobName, Problem, ThingId
from controller.rest.schemas.fabric import (
    Cabling,
    CablingFinding,
    DrainDocument,
    DrainForm,
    FabricCable,
    FabricDocument,
    FabricHost,
    FabricSwitch,
    LinkList,
    LinkState,
)
from controller.rest.schemas.history import KeptPath, PlanHistory, PlanRecord, PlanSummary, RollbackForm
from controller.rest.schemas.jobs import JobDocument, JobList, JobSummary
from controller.rest.schemas.learning import (
    LearnedDocument,
    LearnedGroupDocument,
    LearnedList,
    LearnedSummary,
    SightingQp,
    SightingsForm,
    SightingsTaken,
)
from controller.rest.schemas.plans import (
    ExpectedIteration,
    ExpectedSlowdown,
    JobShiftDocument,
    Plan,
    PlanCollective,
    PlanDocument,
    PlanFlow,
    PlanLevel,
    PlanLink,
    PlanPath,
    PlanState,
    ScheduleDocument,
)
from controller.rest.schemas.preview import JobChange, PlanValue, PreviewDocument, PreviewForm
from controller.rest.schemas.routes import RouteFlow, RoutePiece, Routes
from controller.rest.schemas.survival import FailureOutcome, SurvivalDocument, SurvivalForm
from controller.rest.schemas.system import (
    EventDocument,
    Health,
    HealthAnswer,
    Liveness,
    Metrics,
    ModeDocument,
    ModeForm,
    OpenApi,
    SwitchCount,
    WhoAmI,
)
from controller.rest.schemas.trace import TraceBody, TraceDocument

__all__ = [
    "JOB_NAME",
    "LARGEST_EPOCH",
    "MOST_PLANS",
    "Cabling",
    "CablingFinding",
    "Document",
    "DrainDocument",
    "DrainForm",
    "EventDocument",
    "ExpectedIteration",
    "ExpectedSlowdown",
    "FabricCable",
    "FabricDocument",
    "FabricHost",
    "FabricSwitch",
    "FailureOutcome",
    "Form",
    "Health",
    "HealthAnswer",
    "JobChange",
    "JobDocument",
    "JobList",
    "JobName",
    "JobShiftDocument",
    "JobSummary",
    "KeptPath",
    "LearnedDocument",
    "LearnedGroupDocument",
    "LearnedList",
    "LearnedSummary",
    "LinkList",
    "LinkState",
    "Liveness",
    "Metrics",
    "ModeDocument",
    "ModeForm",
    "OpenApi",
    "Plan",
    "PlanCollective",
    "PlanDocument",
    "PlanFlow",
    "PlanHistory",
    "PlanLevel",
    "PlanLink",
    "PlanPath",
    "PlanRecord",
    "PlanState",
    "PlanSummary",
    "PlanValue",
    "PreviewDocument",
    "PreviewForm",
    "Problem",
    "RollbackForm",
    "RouteFlow",
    "RoutePiece",
    "Routes",
    "ScheduleDocument",
    "SightingQp",
    "SightingsForm",
    "SightingsTaken",
    "SurvivalDocument",
    "SurvivalForm",
    "SwitchCount",
    "ThingId",
    "TraceBody",
    "TraceDocument",
    "WhoAmI",
]
