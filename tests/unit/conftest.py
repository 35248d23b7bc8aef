"""Settings of the unit tests: kernels are loaded before the first test.

Integration tests plan in controllers, which load the kernels themselves.
"""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _warm_kernels() -> None:
    from controller.routing import warm_up

    warm_up()
