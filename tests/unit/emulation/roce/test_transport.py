"""Sender and receiver over a channel that loses, doubles and reorders."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.paces import UNANSWERED
from emulation.roce.psn import PSN_MODULUS, psn_offset
from emulation.roce.receiver import Receiver
from emulation.roce.sender import LEAST_WINDOW, Sender, SenderOptions
from emulation.roce.wire import (
    FRAME_OVERHEAD,
    NAK_INVALID_REQUEST,
    NAK_REMOTE_ACCESS,
    NAK_SEQUENCE,
    SYNDROME_ACK,
    WRITE_FIRST,
    WRITE_LAST,
    WRITE_LAST_IMMEDIATE,
    WRITE_MIDDLE,
    WRITE_ONLY,
    WRITE_ONLY_IMMEDIATE,
    Ack,
    Reth,
    Write,
)
from tests.unit.emulation.roce.channel import RKEY, Channel, Run, pair
from tests.unit.laws import examples

OPTIONS = SenderOptions(mtu=256, window=8, ack_every=4, line_rate=1e7)


def play(
    sizes: list[int], options: SenderOptions, channel: Channel, first_psn: int = 0
) -> tuple[Run, bytearray, list[bytes]]:
    """Send messages of these sizes, one behind the other in the responder's memory; odd ones carry immediate data."""
    rng = random.Random(1)
    messages = [rng.randbytes(size) for size in sizes]
    memory = bytearray(sum(sizes))
    run = pair(options, channel, memory=memory, first_psn=first_psn)
    at = 0
    for i, message in enumerate(messages):
        run.sender.post(memoryview(message), at, RKEY, tag=i, immediate=immediate_of(i))
        at += len(message)
    run.play()
    return run, memory, messages


def immediate_of(message: int) -> int | None:
    return 2**32 - message if message % 2 else None


@settings(max_examples=examples(75, 450))
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=8),
    window=st.integers(1, 40),
    ack_every=st.integers(1, 50),
    loss=st.sampled_from((0.0, 0.01, 0.1, 0.3)),
    duplication=st.sampled_from((0.0, 0.1, 0.5)),
    reordering=st.sampled_from((0.0, 0.1, 0.5)),
    first_psn=st.one_of(st.just(0), st.integers(PSN_MODULUS - 30, PSN_MODULUS - 1)),
    seed=st.integers(0, 2**32),
)
def test_every_message_arrives_exactly_once_intact_and_in_order_whatever_the_channel_does(
    sizes: list[int],
    window: int,
    ack_every: int,
    loss: float,
    duplication: float,
    reordering: float,
    first_psn: int,
    seed: int,
) -> None:
    # Enough retries for the time in which this channel loses packets: failing then is not what is looked at here.
    options = SenderOptions(mtu=256, window=window, ack_every=ack_every, line_rate=1e7, retries=100)
    channel = Channel(random.Random(seed), loss, duplication, reordering)
    run, memory, messages = play(sizes, options, channel, first_psn)
    assert run.sender.error == run.receiver.error == ""
    assert bytes(memory) == b"".join(messages)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    immediates = [immediate_of(i) for i in range(len(sizes))]
    assert [tuple(arrival) for arrival in run.arrived] == list(zip(starts, sizes, immediates, strict=True))
    assert run.completed == list(range(len(sizes)))
    assert not run.sender.busy
    assert run.widest <= window
    assert run.receiver.counters.bytes == run.sender.counters.bytes == sum(sizes)
    sizes_sent: dict[int, int] = {}
    for packet, counted in zip(run.sent, run.counted, strict=True):
        sizes_sent[packet.psn] = len(packet.payload)
        assert counted == sum(sizes_sent.values())
    assert run.sender.sent_bytes == sum(sizes)
    assert run.sender.counters.retransmissions == len(run.sent) - len(sizes_sent)


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=8), st.integers(1, 20))
def test_without_loss_every_packet_is_sent_once_and_the_last_of_each_message_asks_for_an_answer(
    sizes: list[int], window: int
) -> None:
    options = SenderOptions(mtu=256, window=window, line_rate=1e7)
    run, _, _ = play(sizes, options, Channel(random.Random(0)))
    assert [packet.psn for packet in run.sent] == list(range(len(run.sent)))
    assert run.sender.counters.retransmissions == run.sender.counters.timeouts == 0
    ends = [packet for packet in run.sent if packet.opcode not in (WRITE_FIRST, WRITE_MIDDLE)]
    assert all(packet.ack_request for packet in ends)
    for i, packet in enumerate(ends):
        plain, immediate = (WRITE_ONLY, WRITE_ONLY_IMMEDIATE) if packet.reth else (WRITE_LAST, WRITE_LAST_IMMEDIATE)
        assert packet.opcode == (immediate if i % 2 else plain)
    lengths = [packet.reth.length for packet in run.sent if packet.reth is not None]
    assert lengths == sizes


def test_numbers_wrap_from_the_last_to_zero_in_the_middle_of_a_message() -> None:
    run, memory, messages = play([2560], OPTIONS, Channel(random.Random(0)), first_psn=PSN_MODULUS - 3)
    assert [packet.psn for packet in run.sent] == [PSN_MODULUS - 3, PSN_MODULUS - 2, PSN_MODULUS - 1, *range(7)]
    assert bytes(memory) == messages[0]


@given(st.integers(0, PSN_MODULUS - 1), st.integers(-(2**23), 2**23 - 1))
def test_the_offset_between_two_numbers_is_what_was_added(reference: int, offset: int) -> None:
    assert psn_offset((reference + offset) % PSN_MODULUS, reference) == offset


def feed(run: Run, packets: list[Write]) -> list[Ack]:
    return [answer.ack for packet in packets if (answer := run.receiver.on_packet(packet)).ack is not None]


def launch(run: Run, now: float) -> list[Write]:
    """What the sender sends within a few microseconds, at a rate that does not matter."""
    packets = []
    while (packet := run.sender.poll(now)) is not None:
        packets.append(packet)
        now += 1e-7
    return packets


def unpaced(size: int) -> Run:
    run = pair(
        SenderOptions(mtu=256, window=8, ack_every=4, line_rate=1e12),
        Channel(random.Random(0)),
        memory=bytearray(size),
    )
    run.sender.post(memoryview(bytes(size)), 0, RKEY, tag="whole")
    return run


def test_one_lost_packet_costs_one_nak_and_everything_sent_after_it_again() -> None:
    run = unpaced(256 * 8)
    packets = launch(run, 0.0)
    (nak,) = feed(run, [*packets[:3], *packets[4:]])
    assert (nak.syndrome, nak.psn, nak.msn) == (NAK_SEQUENCE, 3, 0)
    assert run.sender.on_ack(nak, 0.01) == []
    again = launch(run, 0.1)
    assert [packet.psn for packet in again] == [3, 4, 5, 6, 7]
    assert run.sender.counters.retransmissions == 5
    acks = feed(run, again)
    assert (acks[-1].syndrome, acks[-1].psn, acks[-1].msn) == (SYNDROME_ACK, 7, 1)
    assert run.sender.on_ack(acks[-1], 0.2) == ["whole"]
    assert run.receiver.counters.bytes == 256 * 8


def test_an_acknowledgement_that_was_lost_is_given_again_when_the_last_packet_comes_again() -> None:
    run = unpaced(256 * 4)
    feed(run, launch(run, 0.0))
    deadline = run.sender.deadline()
    assert deadline is not None
    again = launch(run, deadline)
    assert run.sender.counters.timeouts == 1
    acks = feed(run, again)
    assert run.receiver.counters.duplicates == 4
    assert run.receiver.counters.messages == 1
    assert run.sender.on_ack(acks[-1], deadline + 0.01) == ["whole"]


def test_a_peer_that_never_answers_fails_the_queue_pair_after_its_retries() -> None:
    run = pair(OPTIONS, Channel(random.Random(0), loss=1.0, loss_until=1e9), memory=bytearray(1000))
    run.sender.post(memoryview(bytes(1000)), 0, RKEY)
    run.play()
    assert "no answer" in run.sender.error
    assert run.sender.counters.timeouts == OPTIONS.retries + 1
    assert not run.sender.busy
    assert run.sender.deadline() is None


def test_losses_lower_the_rate_and_time_without_loss_brings_it_back() -> None:
    sender = Sender(1, OPTIONS)
    full = sender.rates.rate(0.0)
    sender.rates.lost(1.0)
    low = sender.rates.rate(1.0)
    sender.rates.lost(2.0)
    assert full == OPTIONS.line_rate
    assert low == full / 2
    rates = [sender.rates.rate(2.0 + step / 10) for step in range(100)]
    assert rates == sorted(rates)
    assert rates[0] < full
    assert rates[-1] == full


def test_two_losses_at_once_are_one_event() -> None:
    sender = Sender(1, OPTIONS)
    sender.rates.lost(1.0)
    once = sender.rates.rate(1.0)
    sender.rates.lost(1.001)
    assert sender.rates.rate(1.001) == once


@given(st.lists(st.floats(0, 0.5), max_size=60))
def test_the_rate_stays_between_a_hundredth_and_all_of_the_line(gaps: list[float]) -> None:
    sender = Sender(1, OPTIONS)
    now = 0.0
    for gap in gaps:
        now += gap
        sender.rates.delivered(256, now)
        sender.rates.lost(now)
        assert OPTIONS.line_rate / 100 <= sender.rates.rate(now) <= OPTIONS.line_rate


def test_packets_leave_no_faster_than_the_line_rate() -> None:
    run, _, _ = play([100_000], SenderOptions(mtu=256, window=1000, line_rate=1e6), Channel(random.Random(0)))
    bits = sum(len(packet.payload) for packet in run.sent) * 8
    assert bits / run.now <= 1e6


@settings(max_examples=examples(15, 90), deadline=None)
@given(pace=st.floats(5e4, 2e7), line=st.sampled_from((1e6, 1e7)))
def test_payload_leaves_at_the_pace_but_no_faster_than_the_line_rate(pace: float, line: float) -> None:
    options = SenderOptions(mtu=256, window=1000, line_rate=line)
    run = pair(options, Channel(random.Random(0)), memory=bytearray(100_000))
    run.sender.pace = pace
    run.sender.post(memoryview(bytes(100_000)), 0, RKEY)
    run.play()
    expected = min(pace, line * 256 / (256 + FRAME_OVERHEAD))
    assert 0.93 * expected <= 800_000 / run.now <= 1.03 * expected


@settings(max_examples=examples(15, 90), deadline=None)
@given(
    pace=st.floats(5e4, 5e6), delay=st.floats(0.001, 0.05), ack_every=st.sampled_from((1, 8)), size=st.integers(1, 9)
)
def test_a_window_of_one_round_trip_is_enough_for_a_pace_and_never_more_than_it_holds(
    pace: float, delay: float, ack_every: int, size: int
) -> None:
    options = SenderOptions(mtu=256, window=1000, ack_every=ack_every, line_rate=1e9, pace_window=1.0)
    run = pair(options, Channel(random.Random(0), delay=delay), memory=bytearray(100_000))
    run.sender.pace = pace
    # A short message first: its round trip is not that of full packets where switches store them.
    run.sender.post(memoryview(bytes(size)), 0, RKEY)
    run.play()
    begun = run.now
    run.sender.post(memoryview(bytes(100_000)), 0, RKEY)
    run.play()
    trip = 2 * delay
    assert run.sender.round_trip == pytest.approx(trip)
    most = pace * trip / 8 / 256 + UNANSWERED
    assert run.sender.window == int(most) or most > 1000
    took = run.now - begun
    assert (100_000 / 256 / most - 1) * trip <= took <= 800_000 / pace + 3 * trip
    run.sender.pace = None
    assert run.sender.window == 1000


@settings(max_examples=examples(15, 90), deadline=None)
@given(paces=st.lists(st.none() | st.floats(1e3, 1e7), min_size=1, max_size=8), window=st.integers(1, 40))
def test_windows_that_change_while_packets_are_under_way_never_stop_a_sender(
    paces: list[float | None], window: int
) -> None:
    options = SenderOptions(mtu=256, window=window, line_rate=1e7, pace_window=1.0)
    run = pair(options, Channel(random.Random(0), loss=0.05, loss_until=2.0), memory=bytearray(60_000))
    run.sender.post(memoryview(bytes(range(250)) * 240), 0, RKEY)
    for number, pace in enumerate(paces):
        run.sender.pace = pace
        run.play(until=0.02 * (number + 1))
    run.play()
    assert run.sender.counters.bytes == 60_000
    assert run.widest <= window


def test_another_path_has_another_round_trip() -> None:
    options = SenderOptions(mtu=256, line_rate=1e7, pace_window=1.0)
    run = pair(options, Channel(random.Random(0), delay=0.002), memory=bytearray(60_000))
    run.sender.pace = 1e6
    run.sender.post(memoryview(bytes(60_000)), 0, RKEY)
    run.play(until=0.1)
    assert run.sender.round_trip == pytest.approx(0.004)
    run.sender.resend()
    assert run.sender.round_trip is None
    run.channel.delay = 0.02
    run.play()
    assert run.sender.round_trip == pytest.approx(0.04)


def test_a_round_trip_that_is_stated_is_not_measured() -> None:
    options = SenderOptions(mtu=256, line_rate=1e7, pace_window=0.5, round_trip=0.05)
    run = pair(options, Channel(random.Random(0), delay=0.002), memory=bytearray(60_000))
    run.sender.pace = 1e6
    run.sender.post(memoryview(bytes(60_000)), 0, RKEY)
    run.play()
    assert run.sender.round_trip == 0.05
    assert run.sender.window == int(0.5 * 1e6 * 0.05 / 8 / 256) + UNANSWERED


def test_another_pace_holds_from_the_next_packet_and_none_sets_it_free() -> None:
    run = pair(SenderOptions(mtu=256, window=1000, line_rate=1e7), Channel(random.Random(0)), memory=bytearray(300_000))
    rates = []
    for number, pace in enumerate((1e6, 2.5e5, None)):
        run.sender.pace = pace
        begun = run.now
        run.sender.post(memoryview(bytes(100_000)), 100_000 * number, RKEY)
        run.play()
        rates.append(800_000 / (run.now - begun))
    assert rates[:2] == [pytest.approx(1e6, rel=0.05), pytest.approx(2.5e5, rel=0.05)]
    assert rates[2] > 5e6


def test_a_piece_has_its_share_of_the_rate_and_of_the_window() -> None:
    piece = SenderOptions(window=32, line_rate=1e9).part(0.25)
    assert (piece.window, piece.line_rate) == (8, 0.25e9)
    assert SenderOptions(window=4).part(0.01).window == 2
    with pytest.raises(InputError, match="share"):
        SenderOptions().part(0.0)


@given(st.integers(1, 200), st.integers(1, 128))
def test_a_qp_has_the_whole_rate_and_more_than_its_share_of_the_window(window: int, qps: int) -> None:
    whole = SenderOptions(window=window, line_rate=1e9)
    qp = whole.part(1 / qps, paced=False)
    assert qp.line_rate == 1e9
    assert window / qps <= qp.window <= window
    assert qp.window >= min(window, LEAST_WINDOW)
    assert whole.part(1.0, paced=False) == whole


@pytest.mark.parametrize(
    ("packet", "syndrome"),
    [
        (Write(WRITE_ONLY, 17, 0, True, Reth(0, RKEY + 1, 4), memoryview(b"abcd")), NAK_REMOTE_ACCESS),
        (Write(WRITE_ONLY, 17, 0, True, Reth(1 << 40, RKEY, 4), memoryview(b"abcd")), NAK_REMOTE_ACCESS),
        (Write(WRITE_MIDDLE, 17, 0, True, None, memoryview(bytes(256))), NAK_INVALID_REQUEST),
        (Write(WRITE_LAST, 17, 0, True, None, memoryview(bytes(4))), NAK_INVALID_REQUEST),
        (Write(WRITE_FIRST, 17, 0, True, Reth(0, RKEY, 512), memoryview(bytes(255))), NAK_INVALID_REQUEST),
        (Write(WRITE_ONLY, 17, 0, True, Reth(0, RKEY, 5), memoryview(b"abcd")), NAK_INVALID_REQUEST),
    ],
    ids=["key", "address", "middle-first", "last-first", "first-not-full", "length"],
)
def test_a_packet_that_breaks_the_protocol_is_refused_and_fails_both_ends(packet: Write, syndrome: int) -> None:
    memory = bytearray(1000)
    receiver = Receiver(17, memoryview(memory), RKEY, mtu=256)
    answer = receiver.on_packet(packet)
    assert answer.arrival is None
    assert answer.ack is not None
    assert answer.ack.syndrome == syndrome
    assert receiver.error
    assert memory == bytes(1000)
    sender = Sender(17, OPTIONS)
    sender.post(memoryview(b"abcd"), 0, RKEY)
    sender.poll(0.0)
    sender.on_ack(answer.ack, 0.1)
    assert "refused" in sender.error
    assert sender.poll(0.2) is None


@given(st.lists(st.tuples(st.integers(0, PSN_MODULUS - 1), st.sampled_from((SYNDROME_ACK, NAK_SEQUENCE)))))
def test_acknowledgements_of_what_was_never_sent_change_nothing(answers: list[tuple[int, int]]) -> None:
    run = unpaced(256 * 4)
    sent = launch(run, 0.0)
    for psn, syndrome in answers:
        if psn >= len(sent):
            assert run.sender.on_ack(Ack(17, psn, syndrome, 0), 0.1) == []
    assert run.sender.outstanding == len(sent)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"mtu": 1500}, "mtu"),
        ({"window": 0}, "window"),
        ({"window": 2**23}, "window"),
        ({"ack_every": 0}, "ack_every"),
        ({"line_rate": 0.0}, "line_rate"),
        ({"min_timeout": 2.0}, "timeout"),
        ({"retries": -1}, "retries"),
    ],
)
def test_options_out_of_range_are_refused_by_name(options: dict[str, float], field: str) -> None:
    with pytest.raises(InputError, match=field):
        SenderOptions(**options)  # type: ignore[arg-type]


def test_a_message_longer_than_a_queue_pair_may_carry_is_refused() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 2**31 + 1

    with pytest.raises(InputError, match="bytes"):
        Sender(1, OPTIONS).post(Huge(), 0, RKEY)  # type: ignore[arg-type]
