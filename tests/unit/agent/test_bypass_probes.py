"""Laws of what is known of bypass probes, on made clocks."""

from __future__ import annotations

from ipaddress import IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from agent.bypass_probes import MISSES, PATIENCE_SECONDS, BypassProbes

PROBE, OTHER = IPv6Address("fcbb:bb00:c001:f001::"), IPv6Address("fcbb:bb00:c002:f001::")
EVERY = PATIENCE_SECONDS + 0.5


def send(probes: BypassProbes, number: int, *, back: bool, others_back: bool = True) -> bool:
    """Send the probe of this number, and wait until it is lost or has come back; return whether that is news."""
    now = number * EVERY
    probes.sent(PROBE, number, now)
    news = back and probes.answered(PROBE)
    return probes.judge(now + PATIENCE_SECONDS + 0.1, now if others_back else now - 1.0) or news


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20))
def test_one_that_came_back_is_known_at_once_and_one_that_did_not_after_several(sent: list[tuple[bool, bool]]) -> None:
    probes = BypassProbes()
    probes.watch([PROBE, OTHER])
    state, missed = None, 0
    for number, (back, others_back) in enumerate(sent):
        before = state
        missed = 0 if back else missed + others_back
        if back or missed >= MISSES:
            state = back
        news = send(probes, number, back=back, others_back=others_back)
        assert probes.known == ({} if state is None else {PROBE: state})
        assert news == (state is not before and (state is True or before is True))


def test_what_is_late_is_no_loss_and_probes_that_are_watched_no_more_are_forgotten() -> None:
    probes = BypassProbes()
    probes.watch([PROBE])
    for number in range(MISSES):
        send(probes, number, back=False)
    assert probes.known == {PROBE: False}
    assert probes.answered(PROBE)
    assert not probes.answered(PROBE)
    assert not probes.answered(OTHER)
    probes.watch([PROBE, OTHER])
    assert probes.known == {PROBE: True}
    probes.watch([OTHER])
    assert probes.known == {}
    probes.watch([PROBE])
    assert probes.probes == (PROBE,)
    assert probes.known == {}
