"""Limits on the number of clients."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rest.serving.limits import ClientLimits, limits_for, room_for


@given(st.integers(1, 4096), st.integers(0, 10**6))
def test_there_is_room_for_what_was_asked_or_for_what_others_leave_and_half_of_the_files(
    connections: int, others: int
) -> None:
    room = room_for(connections, others)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = connections if soft == resource.RLIM_INFINITY else max(soft // 2, soft - others)
    assert room == min(connections, most)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_there_is_room_for_two_connections_of_each_agent_beside_those_of_others(connections: int, agents: int) -> None:
    limits = limits_for(connections, agents)
    assert limits.connections == (connections or ClientLimits().connections + 2 * agents)
    # One client may have half of the requests: a relay of all agents, each of which waits and reports.
    assert limits.agents >= max(ClientLimits().agents, 2 * 2 * agents)


@pytest.mark.parametrize(
    ("soft", "hard", "others", "room"),
    [(64, 100, 300, 50), (64, 100, 20, 80), (64, 1000, 300, 200), (500, 1000, 300, 200), (64, 240, 30, 200)],
)
def test_the_soft_limit_on_files_is_raised_as_far_as_needed(soft: int, hard: int, others: int, room: int) -> None:
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
from controller.rest.serving.limits import room_for
print(room_for(200, {others}), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [int(word) for word in out] == [room, max(soft, min(hard, 200 + min(200, others))), hard]


def test_a_body_may_have_sixteen_mebibytes() -> None:
    assert ClientLimits().body_bytes == 16 * 1024 * 1024
