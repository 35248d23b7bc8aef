"""A ring whose traffic a controller learns."""

from __future__ import annotations

import json

import numpy as np

from controller.learning.sightings import SightingBatch
from controller.model.files.clos import clos
from controller.rest import schemas
from tests.unit.learning.drawn_sightings import Draw, Transfers, polled_counters, ring
from tests.unit.service.world import World

FABRIC = clos(3, 3, 2)
GB = 1_000_000_000
RING: Transfers = ring(range(6), GB, 0.3, 0.7)
"""Hosts h1 to h6; h1 is 0 here."""


def body(now: float, iterations: int = 8) -> bytes:
    """Return what hosts report of the ring until now."""
    rng = np.random.default_rng(0)
    return body_of(polled_counters(RING, Draw(0.7, iterations, start=now - 0.7 * iterations), 0.05, rng))


def body_of(batch: SightingBatch) -> bytes:
    """Return a batch as a host reports it."""
    qps = [
        {"src": f"h{key.src + 1}", "dst": f"h{key.dst + 1}", "udp_src": key.udp_src, "dst_qp": key.dst_qp}
        for key in batch.keys
    ]
    columns = {"qp": batch.qp.tolist(), "at": batch.at.tolist(), "bytes": batch.sent.tolist()}
    return json.dumps({"qps": qps} | columns).encode()


def learned(world: World) -> schemas.LearnedList:
    return schemas.LearnedList.model_validate(world.read(lambda service: service.learned()))


def learned_document(world: World, name: str) -> schemas.LearnedDocument:
    return schemas.LearnedDocument.model_validate(world.read(lambda service: service.learned_job(name)))
