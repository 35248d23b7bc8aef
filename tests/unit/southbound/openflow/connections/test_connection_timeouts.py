"""Echo requests: how often they are sent, and when a silent switch is given up."""

from __future__ import annotations

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
import ryu.base.app_manager  # noqa: E402, F401 (before its controller)
from ryu.controller.handler import MAIN_DISPATCHER  # noqa: E402

from controller.southbound.openflow.connections.connection_context import ConnectionContext  # noqa: E402
from controller.southbound.openflow.connections.connection_timeouts import (  # noqa: E402
    ECHOES_PER_SECOND,
    TICK_SECONDS,
    ConnectionTimeouts,
)

INTERVAL, UNREPLIED = 1.0, 3


class Switch:
    """A connection in service; ``asked``: when it was sent echo requests; ``answers``: whether it replies at once."""

    state, reading, at_gate = MAIN_DISPATCHER, True, False
    unfinished_since = sending_since = None
    progress, received, echoed = 3, 0, 0
    echo_request_interval, max_unreplied_echo_requests = INTERVAL, UNREPLIED

    def __init__(self, context: ConnectionContext, *, answers: bool) -> None:
        self.context, self.answers = context, answers
        self.asked: list[float] = []

    def ask_echo(self) -> None:
        self.asked.append(self.context.awake)
        self.received += self.answers
        self.echoed += self.answers


def ended(echo_seconds: float | None, seconds: float, switches: int, *, answers: bool) -> tuple[list[Switch], float]:
    """Look at switches for some seconds; return them, and when the first was given up (0: none was)."""
    context = ConnectionContext(name=hex, changed=lambda: None, clock=lambda: 0.0)
    context.echo_seconds = echo_seconds
    timeouts = ConnectionTimeouts(context)
    made = [Switch(context, answers=answers) for _ in range(switches)]
    given_up: list[float] = []
    timeouts._end = lambda *_: given_up.append(context.awake)  # type: ignore[method-assign]
    for each in made:
        timeouts.add(each)  # type: ignore[arg-type]
    while context.awake < seconds and not given_up:
        context.awake += TICK_SECONDS
        for connection, watched in timeouts._watched.items():
            timeouts.look(connection, watched)
    return made, given_up[0] if given_up else 0.0


@pytest.mark.parametrize(("echo_seconds", "expected"), [(None, INTERVAL), (0.25, 0.25), (0.5, 0.5), (5.0, INTERVAL)])
def test_switches_are_asked_for_an_echo_as_often_as_options_or_cluster_say(
    echo_seconds: float | None, expected: float
) -> None:
    (switch,), at = ended(echo_seconds, 20.0, 1, answers=True)
    assert at == 0.0
    assert len(switch.asked) == pytest.approx(20.0 / expected, abs=1)


@pytest.mark.parametrize("answers", [True, False])
def test_a_silent_switch_is_given_up_at_the_same_time_however_often_it_is_asked(answers: bool) -> None:
    times = {ended(seconds, 30.0, 1, answers=answers)[1] for seconds in (None, 0.25, 0.5, 5.0)}
    assert len(times) == 1
    assert bool(times.pop()) is not answers


def test_a_thousand_echo_requests_a_second_are_shared_by_all_switches() -> None:
    switches, _ = ended(0.25, 10.0, 500, answers=True)
    total = sum(len(each.asked) for each in switches)
    assert total <= ECHOES_PER_SECOND * 10 + 500
    assert min(len(each.asked) for each in switches) >= 10.0 / (500 / ECHOES_PER_SECOND) - 2


def test_echo_requests_of_a_cluster_do_not_need_those_of_the_options() -> None:
    context = ConnectionContext(name=hex, changed=lambda: None, clock=lambda: 0.0)
    context.echo_seconds = 0.25
    timeouts = ConnectionTimeouts(context)
    switch = Switch(context, answers=False)
    switch.max_unreplied_echo_requests = 0
    timeouts.add(switch)  # type: ignore[arg-type]
    for _ in range(8):
        context.awake += TICK_SECONDS
        timeouts.look(switch, timeouts._watched[switch])  # type: ignore[index]
    assert len(switch.asked) == 8
