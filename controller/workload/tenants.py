"""Weights of jobs of tenants: the weight of a tenant, divided among its jobs by theirs.

Max-min fairness over tenants, and over the jobs of each, is that over jobs with these weights, so nothing that plans
knows of tenants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.model.tenant import Tenant
from controller.workload.job_file import LEAST_WEIGHT


def check_tenant(fabric: Fabric, job: Job) -> None:
    """See whether the fabric has the tenant of a job.

    Raises:
        InputError: it does not.
    """
    names = [tenant.name for tenant in fabric.tenants]
    if job.tenant is not None and job.tenant not in names:
        there = (
            f"its tenants are {', '.join(names[:8])}{' and others' if len(names) > 8 else ''}"
            if names
            else "it has none"
        )
        raise InputError(f"the fabric has no such tenant; {there}", field="tenant", value=job.tenant)


def shares(tenants: Sequence[Tenant], weights: Mapping[str, tuple[str | None, float]]) -> dict[str, float]:
    """Return the weight of each job among all jobs: its own, or its share of that of its tenant.

    A share is at least the least weight that a job may state.

    Args:
        tenants: those of the fabric.
        weights: tenant and own weight, by job, of the jobs that send something.
    """
    whole: dict[str, float] = {}
    for tenant, weight in weights.values():
        if tenant is not None:
            whole[tenant] = whole.get(tenant, 0.0) + weight
    of_tenant = {tenant.name: tenant.weight for tenant in tenants}
    return {
        job: weight if tenant is None else max(LEAST_WEIGHT, of_tenant.get(tenant, 1.0) * weight / whole[tenant])
        for job, (tenant, weight) in weights.items()
    }
