"""A job that goes on unchanged stays the learned job that it is, however its bytes and iterations vary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from controller.learning.acting import Need, flows_of, need, pays
from controller.learning.infer import infer
from controller.learning.learned_job import LearnedJob
from controller.learning.life import LearnedLife
from controller.learning.odometer import Odometers
from controller.learning.sightings import SightingBatch
from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.planning.kept_paths import moved_flows, plan_from_paths
from controller.routing import Options, PreviousPlan, assign
from controller.routing.objective.fairness import evaluate
from tests.unit.learning.drawn_sightings import Draw, Transfers, polled_counters, ring, sampled_packets, together

GB = 1_000_000_000
PERIOD, ITERATIONS = 2.0, 100
LOOK_EVERY = 2.0
FABRIC = clos(4, 4, 2)


def part(batch: SightingBatch, begin: float, end: float) -> SightingBatch:
    rows = (batch.at >= begin) & (batch.at < end)
    return batch._replace(qp=batch.qp[rows], at=batch.at[rows], sent=batch.sent[rows])


def traffic_of(jobs: Iterable[LearnedJob]) -> Traffic:
    groups = [(job.name, group) for job in jobs for group in job.groups]
    keys = [key for _, group in groups for key in group.qps]
    src, dst, udp_src = np.array([(key.src, key.dst, key.udp_src) for key in keys], dtype=np.int32).T
    return Traffic(
        src,
        dst,
        np.array([size for _, group in groups for size in group.bytes]),
        np.repeat(np.arange(len(groups), dtype=np.int32), [len(group.qps) for _, group in groups]),
        np.arange(len(keys), dtype=np.int32),
        udp_src,
        tuple(Collective(name, f"g{k}", phase=group.phase) for k, (name, group) in enumerate(groups)),
    )


def gains(planned: Mapping[str, LearnedJob], present: Mapping[str, LearnedJob]) -> bool:
    """Return whether another plan of the present jobs pays, against the paths of the planned ones."""
    first = traffic_of(planned.values())
    before = PreviousPlan.of(FABRIC, first, assign("fair", FABRIC, first).assignment)
    now = traffic_of(present.values())
    new = assign("fair", FABRIC, now, previous=before).assignment
    kept = plan_from_paths(FABRIC, now, [before], policy="fair", status="kept", clock=lambda: 0.0)
    moved = moved_flows(now, before, PreviousPlan.of(FABRIC, now, new))
    return pays(
        kept.objective.min_level, evaluate(FABRIC, now, new).min_level, len(moved), now.n_flows, Options().churn_price
    )


@pytest.mark.parametrize("by", ["readings", "samples"])
@pytest.mark.parametrize(
    "transfers",
    [
        ring(range(8), 4 * GB, 0.8, 1.8),
        together(ring(range(8), 4 * GB, 0.3, 0.8), ring(range(8), 2 * GB, 1.3, 1.7, first_qp=1000)),
    ],
    ids=["ring", "phases"],
)
def test_a_hundred_iterations_that_vary_change_no_rule(transfers: Transfers, by: str) -> None:
    rng = np.random.default_rng(0)
    draw = Draw(PERIOD, ITERATIONS, period_jitter=0.05, bytes_jitter=0.01, sampling=20_000)
    batch = polled_counters(transfers, draw, 0.1, rng) if by == "readings" else sampled_packets(transfers, draw, rng)
    odometers, life = Odometers(), LearnedLife()
    planned: Mapping[str, LearnedJob] = {}
    changes = 0
    for now in np.arange(LOOK_EVERY, PERIOD * ITERATIONS, LOOK_EVERY).tolist():
        odometers.add(part(batch, now - LOOK_EVERY, now))
        life.step(infer(odometers, now - 600, np.random.default_rng(0)), now)
        wanted = need(planned, life.jobs)
        if wanted is Need.NOW or (wanted is Need.IF_IT_PAYS and gains(planned, life.jobs)):
            changes += 1
            planned = dict(life.jobs)
    assert flows_of(planned) == flows_of(life.jobs) == {(key.src, key.dst, key.udp_src) for key in transfers.keys}
    # The one by which the job is planned first.
    assert changes == 1
