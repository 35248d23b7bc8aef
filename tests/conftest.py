"""For every test: how Hypothesis searches, and kernels that are compiled before anything is tried."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Time is never asserted: machines are noisy, and the first example of a kernel compiles it.
settings.register_profile("fairspine", deadline=None, print_blob=True)
settings.load_profile("fairspine")


@pytest.fixture(autouse=True, scope="session")
def _warm_kernels() -> None:
    from controller.routing import warm_up

    warm_up()
