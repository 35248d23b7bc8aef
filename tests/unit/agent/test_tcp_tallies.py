"""What the kernel counts of connections becomes what hosts have sent each other."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from agent.linux.tcp_connections import TcpConnection, TcpConnections
from agent.tcp_tallies import TcpTallies
from tests.rig.waiting import eventually

A, B, STRANGER = map(IPv4Address, ("10.0.0.1", "10.0.0.2", "192.0.2.1"))
LOOPBACK = IPv4Address("127.0.0.1")
SIZE = 3_000_000


@given(
    st.lists(st.dictionaries(st.integers(0, 4), st.integers(0, 10**9), max_size=5), min_size=1, max_size=8),
)
def test_totals_rise_by_what_connections_send_also_when_some_end_and_others_begin(rises: list[dict[int, int]]) -> None:
    tallies, sent, total, told = TcpTallies([A, B]), dict[int, int](), 0, list[int]()
    for i, step in enumerate(rises):
        sent = {number: sent.get(number, 0) + rise for number, rise in step.items()}
        total += sum(step.values()) if i else 0
        rows = [TcpConnection(bytes([number]), A, B, size, 7) for number, size in sent.items()]
        tallies.take([*rows, TcpConnection(b"x", A, STRANGER, 10**9 * i, 0), TcpConnection(b"y", A, A, i, 0)], float(i))
        told += [total] if told or rows else []
    body = tallies.body()
    if not told:
        assert body is None
        return
    assert body is not None
    assert body["qps"] == [{"src": str(A), "dst": str(B), "protocol": "tcp"}]
    assert body["bytes"] == told
    assert body["at"] == [float(i) for i in range(len(rises))][-len(told) :]
    assert tallies.body() is None


def test_the_kernel_tells_what_a_connection_has_sent_and_received_in_sockets_of_both_families() -> None:
    with (
        closing(TcpConnections()) as reader,
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client,
        ThreadPoolExecutor(1) as beside,
    ):
        accepted, _ = server.accept()
        with accepted:
            sending = beside.submit(client.sendall, bytes(SIZE))
            left = SIZE
            while left:
                left -= len(accepted.recv(1 << 16))
            sending.result()

            def told() -> list[tuple[int, int]]:
                return [(each.sent, each.received) for each in reader.read() if each.src == each.dst == LOOPBACK]

            # The kernel counts the SYN of the end that connects, too. The last acknowledgement may be on its way.
            eventually(lambda: {(SIZE + 1, 0), (0, SIZE)} <= set(told()), "both ends are told", shown=told)
