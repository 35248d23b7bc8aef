"""The metrics of hosts' NICs: what agents have reported, and nothing that is not known."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from controller.core.ports.host_agents import AgentState, HostReport, NicCounters
from controller.views.host_metrics import host_metrics

numbers = st.none() | st.integers(0, 1 << 53)
by_class = st.none() | st.tuples(*[numbers] * 8)
counters = st.builds(
    NicCounters,
    **{
        field.name: by_class if field.name in ("pause_received", "pause_sent", "dropped") else numbers
        for field in fields(NicCounters)
    },
)


def agent(host: str, known: NicCounters | None) -> AgentState:
    return AgentState(host, True, 1.0, 1, True, HostReport(None, counters=known))


@given(st.lists(st.none() | counters, max_size=3))
def test_every_known_counter_is_one_sample_and_no_other_is_there(drawn: list[NicCounters | None]) -> None:
    families = list(host_metrics([agent(f"h{n}", known) for n, known in enumerate(drawn)]))
    samples = [sample for family in families for sample in family.samples]
    known = [value for each in drawn if each is not None for value in values(each)]
    assert sorted(sample.value for sample in samples) == sorted(known)
    assert len({(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples}) == len(samples)


def values(each: NicCounters) -> list[int]:
    drawn = [getattr(each, field.name) for field in fields(each)]
    flat = [one for value in drawn for one in (value if isinstance(value, tuple) else (value,))]
    return [one for one in flat if one is not None]


def test_pause_frames_tell_the_host_the_direction_and_the_class() -> None:
    pauses = (None, None, None, 41, None, None, None, None)
    families = host_metrics([agent("h1", NicCounters(pause_received=pauses, link_pause_sent=2))])
    rows = {tuple(sample.labels.values()): sample.value for sample in next(families).samples}
    assert rows == {("h1", "received", "3"): 41, ("h1", "sent", "all"): 2}


def test_a_host_that_has_not_reported_counters_has_no_sample() -> None:
    states = [agent("h1", None), AgentState("h2", True, None, None, False, None)]
    assert not [sample for family in host_metrics(states) for sample in family.samples]
