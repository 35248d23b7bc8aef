"""Paces of connections: which sockets get which rates, by a model, and on the kernel of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from ipaddress import IPv4Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.linux.socket_paces import KeptPaces, SocketPaces, lend, mtu_to, payload_rate
from agent.linux.tcp_connections import UNLIMITED, TcpConnection, TcpConnections
from agent.plans.flow_keys import Address
from tests.unit.laws import examples

SOURCE, PEERS = IPv4Address("10.0.0.1"), [IPv4Address(f"10.0.0.{n}") for n in (2, 3, 4)]
HERE, THERE, OTHER = (IPv4Address(f"127.83.0.{n}") for n in (1, 2, 3))

rates = st.integers(1, 10**9)
plans = st.dictionaries(st.sampled_from(PEERS), st.none() | rates)
NOBODY = 7
"""The inode of a socket that the agent cannot reach."""


class Kernel:
    """Connections, and the rates of their sockets."""

    def __init__(self, ends: list[tuple[IPv4Address, IPv4Address, int]]) -> None:
        self.rates = {n: rate for n, (*_, rate) in enumerate(ends)}
        self._ends = [end[:2] for end in ends]

    def read(self) -> list[TcpConnection]:
        return [TcpConnection(b"%d" % n, *ends, 0, 0, self.rates[n], n + 1) for n, ends in enumerate(self._ends)]

    def lend(self, rates: Mapping[int, int]) -> str:
        self.rates.update({inode - 1: rate for inode, rate in rates.items() if inode != NOBODY})
        return "unreachable" if NOBODY in rates else ""


ends = st.tuples(st.sampled_from([SOURCE, PEERS[0]]), st.sampled_from([SOURCE, *PEERS]), st.just(UNLIMITED) | rates)


@settings(max_examples=examples(30, 3000))
@given(connections=st.lists(ends, max_size=8), followed=st.lists(plans, min_size=1, max_size=4))
def test_connections_of_the_plan_keep_its_paces_and_no_others(
    connections: list[tuple[IPv4Address, IPv4Address, int]], followed: list[dict[Address, int | None]]
) -> None:
    kernel = Kernel(connections)
    sockets = SocketPaces(kernel.read, kernel.lend)
    touched: set[int] = set()
    for paces in [*followed, {}]:
        before = dict(kernel.rates)
        kept = sockets.keep(SOURCE, paces)
        planned = {n: paces[dst] for n, (src, dst, _) in enumerate(connections) if src == SOURCE and dst in paces}
        limited = {n: rate for n, rate in planned.items() if rate is not None}
        reached = {n for n in limited if kernel.rates[n] == limited[n]}
        assert reached >= limited.keys() - {NOBODY - 1}
        assert (kept.planned, kept.paced) == (len(limited), len(reached))
        if NOBODY - 1 in limited:
            assert kept.reason or NOBODY - 1 in reached
        touched |= planned.keys()
        for n in before.keys() - limited.keys() - {NOBODY - 1}:
            # What had a pace has none any more, and connections that never were in a plan are left alone.
            assert kernel.rates[n] == (UNLIMITED if n in touched else before[n])
    assert not sockets.holds or NOBODY - 1 in touched


@given(wire=st.floats(1e3, 8e11), mtu=st.integers(576, 65000))
def test_full_packets_take_the_pace_on_the_link(wire: float, mtu: int) -> None:
    packets = payload_rate(wire, mtu) / (mtu - 52)
    assert packets * (mtu + 38) * 8 == pytest.approx(wire, abs=8 * (mtu + 38) / (mtu - 52))


@contextmanager
def connected(peer: IPv4Address) -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server((str(peer), 0)) as listener:
        one = socket.create_connection((str(peer), listener.getsockname()[1]), 60, (str(HERE), 0))
        other, _ = listener.accept()
        with one, other:
            yield one, other


def rate_of(one: socket.socket) -> int:
    return int.from_bytes(one.getsockopt(socket.SOL_SOCKET, 47, 8), "little")


def test_the_kernel_keeps_the_paces_of_running_connections_until_they_are_lifted() -> None:
    with closing(TcpConnections()) as connections, connected(THERE) as (paced, back), connected(OTHER) as (free, _):
        sockets = SocketPaces(lambda: connections.read().open, lend)
        for pace in (1_250_000, 2_500_000):
            assert sockets.keep(HERE, {THERE: pace, OTHER: None}) == KeptPaces(1, 1)
            assert [rate_of(each) for each in (paced, back, free)] == [pace, UNLIMITED, UNLIMITED]
        assert sockets.keep(HERE, {}) == KeptPaces(0, 0)
        assert rate_of(paced) == UNLIMITED
        assert mtu_to(HERE, THERE) > 576
