"""Link rates: scaled, and refused where they would silently not be enforced."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from emulation.rates import MAX_MBPS, emulated_mbps
from emulation.wiring import wire_up


@given(host=st.floats(1, 400), uplink=st.floats(1, 400), scale=st.floats(1e-3, 100))
def test_a_rate_is_the_capacity_times_the_scale_or_refused_with_the_links_name(
    host: float, uplink: float, scale: float
) -> None:
    wires = wire_up(clos(1, 1, 1, host_gbps=host, uplink_gbps=uplink)).wires
    wanted = {"h1-leaf1": host * scale, "leaf1-spine1": uplink * scale}
    try:
        assert emulated_mbps(wires, scale) == wanted
        assert max(wanted.values()) <= MAX_MBPS
    except InputError as error:
        assert max(wanted.values()) > MAX_MBPS
        assert any(name in str(error) for name, rate in wanted.items() if rate > MAX_MBPS)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_no_positive_number_is_refused(scale: float) -> None:
    with pytest.raises(InputError, match="mbps_per_gbps"):
        emulated_mbps(wire_up(clos(1, 1, 1)).wires, scale)
