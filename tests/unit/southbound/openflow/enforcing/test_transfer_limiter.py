"""Large exchanges use the limiter, and one that does not end delays others only briefly."""

from __future__ import annotations

from controller import ryu_compat

ryu_compat.prepare()

import eventlet  # noqa: E402 (Ryu first)

from controller.southbound.openflow.enforcing.transfer_limiter import TransferLimiter  # noqa: E402


def test_no_more_than_the_given_number_go_at_once_and_all_get_their_turn() -> None:
    limiter, now, most, done = TransferLimiter(3, 10.0), [0], [0], []

    def work(number: int) -> None:
        with limiter.slot():
            now[0] += 1
            most[0] = max(most[0], now[0])
            eventlet.sleep(0.001)
            now[0] -= 1
        done.append(number)

    pool = [eventlet.spawn(work, number) for number in range(20)]
    for each in pool:
        each.wait()
    assert most[0] == 3
    assert sorted(done) == list(range(20))


def test_a_turn_that_does_not_end_is_over_after_its_time_and_is_given_back_once() -> None:
    limiter, stuck = TransferLimiter(1, 0.02), eventlet.Event()

    def hang() -> None:
        with limiter.slot():
            stuck.wait()

    hanging = eventlet.spawn(hang)
    eventlet.sleep(0)
    with limiter.slot():
        pass
    stuck.send(None)
    hanging.wait()
    eventlet.sleep(0.03)
    taken = limiter.slot()
    with taken:
        assert limiter._free.balance == 0
    assert limiter._free.balance == 1
