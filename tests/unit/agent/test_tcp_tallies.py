"""What the kernel counts of connections becomes what hosts have sent each other."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.linux.tcp_connections import TcpConnection, TcpConnections, TcpReading
from agent.tcp_tallies import TcpTallies
from tests.rig.waiting import eventually

A, B, STRANGER = map(IPv4Address, ("10.0.0.1", "10.0.0.2", "192.0.2.1"))
LOOPBACK, OTHER = IPv4Address("127.0.0.1"), IPv4Address("127.0.0.2")
SIZE = 3_000_000


@given(
    st.lists(
        st.tuples(st.dictionaries(st.integers(0, 4), st.integers(0, 10**9), max_size=5), st.sets(st.integers(0, 4))),
        min_size=1,
        max_size=8,
    ),
)
def test_totals_rise_by_all_that_connections_send_until_they_end(rises: list[tuple[dict[int, int], set[int]]]) -> None:
    """Some end within an interval, of which notices tell, and their numbers come back as other connections."""
    tallies, sent, total, told, is_open = TcpTallies([A, B]), dict[int, int](), 0, list[int](), False
    for i, (step, ending) in enumerate(rises):
        sent = {number: sent.get(number, 0) + rise for number, rise in step.items()}
        total += sum(step.values()) if i else 0
        rows = {number: TcpConnection(b"%d" % number, A, B, size, 7) for number, size in sent.items()}
        ended = {number: row for number, row in rows.items() if number in ending}
        # Even ones end after the reading, and send more until then.
        late = {number: row._replace(sent=row.sent + 5) for number, row in ended.items() if number % 2 == 0}
        total += 5 * len(late)
        opened = [row for number, row in rows.items() if number not in ended or number in late]
        strangers = [TcpConnection(b"x", A, STRANGER, 10**9 * i, 0), TcpConnection(b"y", A, A, i, 0)]
        tallies.take(TcpReading([*opened, *strangers], [*(ended | late).values(), *strangers]), float(i))
        sent, is_open = {number: size for number, size in sent.items() if number not in ending}, bool(opened)
        told += [total] if told or opened or (i and ended) else []
    body = tallies.body()
    if not told:
        assert body is None
        return
    assert body is not None
    assert body["qps"] == [{"src": str(A), "dst": str(B), "protocol": "tcp", "open": is_open}]
    assert body["bytes"] == told
    assert body["at"] == [float(i) for i in range(len(rises))][-len(told) :]
    assert tallies.body() is None


@pytest.mark.parametrize("loopback", [LOOPBACK, IPv6Address("::1")])
def test_the_kernel_tells_what_a_connection_has_sent_and_received_in_sockets_of_both_families(
    loopback: IPv4Address | IPv6Address,
) -> None:
    with (
        closing(TcpConnections()) as reader,
        socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server,
        socket.create_connection((str(loopback), server.getsockname()[1])) as client,
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
                return [(each.sent, each.received) for each in reader.read().open if each.src == each.dst == loopback]

            # The kernel counts the SYN of the end that connects, too. The last acknowledgement may be on its way.
            eventually(lambda: {(SIZE + 1, 0), (0, SIZE)} <= set(told()), "both ends are told", shown=told)


def test_the_kernel_tells_what_connections_have_sent_that_end_between_two_readings() -> None:
    with closing(TcpConnections()) as reader, socket.create_server(("127.0.0.1", 0)) as server:
        tallies = TcpTallies([LOOPBACK, OTHER])
        tallies.take(reader.read(), 0.0)
        for _ in range(3):
            with socket.create_connection(server.getsockname(), source_address=(str(OTHER), 0)) as client:
                accepted, _ = server.accept()
                with accepted:
                    client.sendall(bytes(1000))
                    client.shutdown(socket.SHUT_WR)
                    while accepted.recv(1 << 16):
                        pass

        def told() -> int:
            tallies.take(reader.read(), 1.0)
            body = tallies.body()
            rows = [] if body is None else zip(body["qp"], body["bytes"], strict=True)
            return max((size for qp, size in rows if body and body["qps"][qp]["src"] == str(OTHER)), default=0)

        # The kernel counts SYN and FIN, too.
        eventually(lambda: 3000 <= told() <= 3006, "all three are told", shown=told)
