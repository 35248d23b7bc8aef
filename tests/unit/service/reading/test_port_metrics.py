"""The metrics of source ports: what agents have reported, and nothing of hosts that have reported none."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from controller.core.ports.host_agents import AgentState, FlowPort, HostReport, PortReport, PortState
from controller.views.port_metrics import port_metrics

ages = st.none() | st.floats(0, 1000)
reports = st.builds(
    PortReport,
    st.sampled_from(get_args(PortState)),
    st.lists(st.builds(FlowPort, st.just("10.0.1.1"), st.just(1), st.none() | st.just(50000), st.none(), ages)).map(
        tuple
    ),
    moved=st.integers(0, 99),
    probes=st.integers(0, 99),
    unanswered=st.integers(0, 99),
)


@given(st.lists(st.none() | reports, max_size=4), st.booleans())
def test_samples_are_those_of_the_reports_and_a_silent_agent_knows_nothing(
    drawn: list[PortReport | None], silent: bool
) -> None:
    states = [
        AgentState(f"h{n}", True, 2.0, 1, True, HostReport(None, ports=each), silent) for n, each in enumerate(drawn)
    ]
    rows = {
        (sample.name.removeprefix("fairspine_host_ports_"), *sample.labels.values()): sample.value
        for family in port_metrics(states)
        for sample in family.samples
    }
    reported = {f"h{n}": each for n, each in enumerate(drawn) if each is not None}
    expected: dict[tuple[str, ...], float] = {}
    if reported:
        count = Counter("unknown" if silent else each.state for each in reported.values())
        expected |= {("hosts", name): count[name] for name in get_args(PortState)}
    for host, each in reported.items():
        expected["planned", host] = len(each.flows)
        expected["known", host] = sum(flow.port is not None for flow in each.flows)
        expected["unreachable", host] = 0
        expected["moved_total", host], expected["probes_total", host] = each.moved, each.probes
        expected["unanswered_total", host] = each.unanswered
        if known := [flow.seconds for flow in each.flows if flow.seconds is not None]:
            expected["oldest_seconds", host] = round(max(known) + 2.0, 1)
    assert rows == expected
