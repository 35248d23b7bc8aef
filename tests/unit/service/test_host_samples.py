"""What routers have sampled is told to the agents of the hosts that have sent it, by the names of the fabric file."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from controller.host_samples import KEPT_SECONDS, HostSamples
from controller.learning.sampling.seen_flows import SeenFlow, SeenFlows
from controller.model.files.clos import clos
from tests.rig.routers.probed_fabrics import with_addresses

FABRIC = with_addresses(clos(2, 2, 2))
IPS = [int(IPv4Address(host.ip)) for host in FABRIC.hosts]
STRANGER = int(IPv4Address("203.0.113.9"))
ROUTERS = {switch.name: switch for switch in FABRIC.switches}

flows = st.builds(
    SeenFlow,
    st.sampled_from([address for switch in FABRIC.switches for address in switch.addresses]),
    st.sampled_from([*IPS, STRANGER]),
    st.sampled_from([*IPS, STRANGER]),
    st.integers(50000, 50003),
)
reports = st.lists(st.dictionaries(flows, st.floats(0, 1), max_size=6), max_size=4)


class Runtime:
    """Time that passes in waits; what happens meanwhile is ``then``."""

    def __init__(self) -> None:
        self.at = 0.0
        self.then: list[Callable[[], None]] = []

    def clock(self) -> float:
        return self.at

    def now(self) -> float:
        return 1.8e9 + self.at

    def signal(self) -> Runtime:
        return self

    def set(self) -> None:
        pass

    def wait(self, seconds: float) -> None:
        if self.then:
            self.then.pop(0)()
        else:
            self.at += seconds


def made() -> tuple[HostSamples, Runtime]:
    runtime = Runtime()
    return HostSamples(runtime, FABRIC), runtime  # type: ignore[arg-type]


def told(samples: HostSamples, host: str, after: int) -> tuple[int, set[tuple[str, int, str]]]:
    news = samples.news(host, after, 0.0, lambda: False)
    if news is None:
        return after, set()
    return news["number"], {(row["dst"], row["port"], row["router"]) for row in news["samples"]}


@given(before=reports, later=reports)
def test_each_host_is_told_just_what_is_new_of_its_own_packets_to_hosts(
    before: list[dict[SeenFlow, float]], later: list[dict[SeenFlow, float]]
) -> None:
    samples, runtime = made()
    after = dict.fromkeys(FABRIC.host_names, 0)
    for part in (before, later):
        for at in part:
            runtime.at += 1
            samples.take(SeenFlows({flow: runtime.now() - age for flow, age in at.items()}, 100))
        for host in FABRIC.hosts:
            expected = {
                (str(IPv4Address(flow.dst)), flow.port, switch.name)
                for at in part
                for flow in at
                for switch in FABRIC.switches
                if flow.agent in switch.addresses and flow.src == int(IPv4Address(host.ip)) and flow.dst != STRANGER
            }
            after[host.name], rows = told(samples, host.name, after[host.name])
            assert rows == expected


def test_a_sample_is_as_old_as_it_is_and_forgotten_when_it_is_old() -> None:
    samples, runtime = made()
    flow = SeenFlow(FABRIC.layers[1][0].addresses[1], IPS[0], IPS[2], 50000)
    samples.take(SeenFlows({flow: runtime.now() - 2}, 64))
    runtime.at += 3
    news = samples.news("h1", 0, 0.0, lambda: False)
    assert news is not None
    assert news["one_in"] == 64
    assert news["samples"] == [{"dst": FABRIC.hosts[2].ip, "port": 50000, "router": "spine1", "seconds": 5.0}]
    # The number of another run of the controller counts as none.
    assert samples.news("h1", news["number"], 0.0, lambda: False) is None
    assert samples.news("h1", 7, 0.0, lambda: False) == news
    runtime.at += KEPT_SECONDS
    old = samples.news("h1", 0, 0.0, lambda: False)
    assert old is not None
    assert old["samples"] == []


def test_an_agent_waits_for_samples_and_ends_when_it_has_gone() -> None:
    samples, runtime = made()
    flow = SeenFlow(FABRIC.layers[1][1].addresses[0], IPS[0], IPS[2], 50000)
    runtime.then = [lambda: samples.take(SeenFlows({flow: runtime.now()}, 64))]
    news = samples.news("h1", 0, 30.0, lambda: False)
    assert news is not None
    assert [row["router"] for row in news["samples"]] == ["spine2"]
    assert samples.news("h1", news["number"], 30.0, lambda: True) is None


def test_samples_of_an_address_that_the_file_lacks_show_nothing_and_are_told() -> None:
    samples, runtime = made()
    assert [*samples.notices()] == []
    samples.take(SeenFlows({SeenFlow("192.0.2.7", IPS[0], IPS[2], 50000): runtime.now()}, 64))
    assert told(samples, "h1", 0) == (0, set())
    (notice,) = samples.notices()
    assert "192.0.2.7" in notice
