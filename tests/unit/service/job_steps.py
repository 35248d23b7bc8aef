"""Steps of jobs, as strategies of documents draw them."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import strategies as st

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob, DesiredState
from controller.core.enforcement_tasks import flow_encoding_for
from controller.core.plan_candidate import make_candidate
from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT, Mode
from controller.model.fabric import Fabric
from controller.southbound.cabling.survey import Survey
from controller.workload.expand import JobTraffic, expand
from controller.workload.job_file import parse_job
from tests.unit.southbound.plans import KEEPING
from tests.unit.workload.documents import FABRIC, jobs


def step_of(
    fabric: Fabric,
    descriptions: list[dict[str, Any]],
    epoch: int = 5,
    mode: Mode = "planned",
    enforcement: str = DEFAULT_ENFORCEMENT,
    **options: Any,
) -> ControllerState:
    admitted: list[JobTraffic] = []
    for i, description in enumerate(descriptions):
        on = dataclasses.replace(FABRIC, tenants=fabric.tenants)
        admitted.append(expand(on, parse_job(description | {"name": f"job{i}"}), admitted))
    jobs = tuple(AdmittedJob(job.name, b"{}", "r1", i, 7.5, "ann", job.udp_src, job) for i, job in enumerate(admitted))
    desired = DesiredState(jobs, mode=mode, enforcement=enforcement)
    candidate = make_candidate(Settings(**{"policy": "greedy"} | options), None, fabric, desired, None, lambda: 0.0)
    encoding = flow_encoding_for(fabric, desired, candidate, None)
    return ControllerState(
        epoch=epoch, survey=Survey(fabric, ()), desired=desired, candidate=candidate, encoding=encoding, enforced=epoch
    )


STEPS = st.builds(
    step_of,
    st.sampled_from([FABRIC, FABRIC.without_links(["leaf1-spine1"]), FABRIC.without_links(["leaf1"])]),
    st.lists(jobs(claims=False), max_size=3),
    mode=st.sampled_from(["planned", "ecmp", "frozen"]),
    enforcement=st.sampled_from(KEEPING),
)
