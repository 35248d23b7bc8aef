"""Set-up compiles the kernels of learning, so that the first sightings do not wait for the compiler."""

from __future__ import annotations

import numpy as np

from controller.learning import activity, iterations, odometer, volumes
from controller.learning.infer import infer
from controller.learning.odometer import Odometers
from controller.learning.sightings import SightingBatch
from controller.learning.warm_up import warm_up
from tests.unit.learning.drawn_sightings import Draw, exchange, polled_counters, ring, sampled_packets, together


def compiled() -> dict[str, int]:
    """Count the signatures that each kernel is compiled for."""
    return {
        f"{module.__name__}.{name}": len(kernel.nopython_signatures)
        for module in (activity, iterations, odometer, volumes)
        for name, kernel in vars(module).items()
        if hasattr(kernel, "nopython_signatures")
    }


def test_after_warming_up_no_kernel_is_compiled_by_any_sighting() -> None:
    warm_up()
    before = compiled()
    assert len(before) >= 8
    assert sum(before.values()) >= 6
    rng = np.random.default_rng(1)
    job = together(ring(range(4), 10**9, 0.0, 0.2), exchange(range(4), 10**9, 0.5, 0.7, first_qp=100))
    draw = Draw(1.0, 12, period_jitter=0.05, bytes_jitter=0.01, sampling=1000)
    batches: list[SightingBatch] = [polled_counters(job, draw, 0.1, rng), sampled_packets(job, draw, rng)]
    for batch in batches:
        odometers = Odometers()
        odometers.add(batch)
        assert infer(odometers, 0.0, rng)
    assert compiled() == before
