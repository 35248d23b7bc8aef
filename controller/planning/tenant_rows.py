"""A plan by tenant: what the jobs of each get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from controller.model.plan import Plan
from controller.model.tenant import Tenant
from controller.model.traffic import Traffic
from controller.planning.slowest import slowest


def tenant_rows(tenants: Sequence[Tenant], traffic: Traffic, plan: Plan) -> list[dict[str, Any]]:
    """Return a row for each tenant of a fabric; numbers that no job of it has are null.

    Its weight; its jobs that send something, their flows, and the bytes of one run of all their collectives; the lowest
    speed of its collectives, and the mean expected slowdown of its jobs, by their weights.
    """
    flows = np.bincount(traffic.collective, minlength=len(traffic.collectives))
    sent = np.bincount(traffic.collective, weights=traffic.bytes, minlength=len(traffic.collectives))
    expected = {} if plan.times is None else {row.job: row for row in plan.times.jobs}
    rows = []
    for tenant in tenants:
        members = [k for k, row in enumerate(traffic.collectives) if row.tenant == tenant.name]
        jobs = sorted({traffic.collectives[k].job for k in members if flows[k]})
        times = [expected[job] for job in jobs if job in expected]
        rows.append(
            {
                "name": tenant.name,
                "weight": tenant.weight,
                "jobs": len(jobs),
                "flows": int(flows[members].sum()),
                "bytes": int(sent[members].sum()),
                "min_speed": slowest(plan, members),
                "slowdown": float(np.average([row.slowdown for row in times], weights=[row.weight for row in times]))
                if times
                else None,
            }
        )
    return rows
