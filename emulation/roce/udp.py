"""A RoCE endpoint on UDP sockets: one address of a NIC, with all of its queue pairs.

Sockets. Everything arrives at one socket bound to (address, 4791), and the queue pair number tells packets apart, as
on a NIC. Requests of a queue pair leave from a socket bound to its UDP source port, which is what switches tell flows
by; queue pairs to different hosts may have the same one, and then share the socket. Acknowledgements go to port 4791 of
the requester and leave from the common socket, source port 4791: the responder may choose it, and a port outside of
the range of planned flows keeps acknowledgements out of every plan.

What makes the ICRC right on the wire (see wire.py): sockets stay unconnected and carry IP_PMTUDISC_PROBE, so that Linux
sets DF and identification 0. The UDP checksum is switched off, as RoCEv2 has it: the ICRC protects more, and a virtual
link cannot leave a checksum unfinished that is not there.

Sending. A NIC serves its queue pairs in turn at line rate and keeps no long queue behind itself. So does
``UdpEndpoint``: one pacer for the host, queue pairs round robin, a packet each. Without it a host with many flows
would fill its own queueing discipline, and its acknowledgements would wait behind its data.
"""

from __future__ import annotations

import errno
import ipaddress
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from controller.model.errors import InputError
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from emulation.netns import socket_in_netns_of
from emulation.roce.loop import EndpointLoop
from emulation.roce.pacer import Pacer
from emulation.roce.receiver import Receiver
from emulation.roce.sender import Sender
from emulation.roce.wire import (
    ACK_FRAME_BYTES,
    ETHERNET_IP_UDP_BYTES,
    Ack,
    FrameError,
    Write,
    decode,
    encode_ack,
    encode_write,
    ip_udp_crc,
    write_frame_bytes,
)

_IP_MTU_DISCOVER = 10
_IP_PMTUDISC_PROBE = 3
_SO_NO_CHECK = 11
_SO_RCVBUFFORCE = 33

RECEIVE_BUFFER = 8 << 20
"""Bytes; root may have it whole, others as far as net.core.rmem_max allows."""

_MAX_DATAGRAM = 64 * 1024
_RECEIVE_BATCH = 64
_CACHED_STATES = 4096

_LOST = {errno.ENOBUFS, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENONET, errno.EPERM}
"""Errors of sendmsg that mean: this packet is gone, as if a cable were out. The transport sends it again."""


class QueuePairError(RuntimeError):
    """A queue pair that will not go on: its peer is gone, or one of the two broke the protocol."""


def _raise_failure(qp: int, reason: str) -> None:
    raise QueuePairError(f"queue pair {qp}: {reason}")


@dataclass(slots=True)
class EndpointCounters:
    """Datagrams that no queue pair saw: refused by ``wire.decode``, for no known queue pair; and sends that failed."""

    refused: int = 0
    unknown_qp: int = 0
    send_failures: int = 0


@dataclass(slots=True, eq=False)
class _SourcePort:
    number: int
    socket: socket.socket
    waiting: list[_Outgoing] = field(default_factory=list)  # for the socket to be writable again


@dataclass(slots=True, eq=False)
class _Outgoing:
    qp: int
    sender: Sender
    port: _SourcePort
    peer: bytes
    address: tuple[str, int]
    done: Callable[[Any], None]
    marks: list[tuple[int, int, bytes]]  # of each packet, as sendmsg takes them
    held: Write | None = None  # polled, but the socket would not take it yet


@dataclass(slots=True)
class _Incoming:
    receiver: Receiver
    peers: dict[bytes, tuple[str, int]]
    arrived: Callable[[int, int], None]


class UdpEndpoint:
    """Queue pairs of one host address. Close it, or use it in a ``with`` statement.

    Args:
        ip: the host's own IPv4 address (not 0.0.0.0: the ICRC covers it).
        port: UDP port of RoCE; another than 4791 only where 4791 is taken, as everyone must use the same.
        line_rate: bit/s that the host sends at most, all queue pairs together.
        failed: called with the number of a queue pair that failed, and why; raises ``QueuePairError`` unless given.
        loop: the loop that serves it, beside the endpoints of the host's other addresses; ``None``: one of its own.
        netns_of: a process in whose network namespace the address is; ``None``: in that of this one.

    Raises:
        InputError: an address that is no host address, or a port that is taken.
    """

    def __init__(
        self,
        ip: str,
        *,
        port: int = ROCE_PORT,
        line_rate: float = 1e9,
        failed: Callable[[int, str], None] = _raise_failure,
        loop: EndpointLoop | None = None,
        netns_of: int | None = None,
    ) -> None:
        """Bind the common socket; ``failed`` is called with the number and the error of a failed queue pair."""
        self.ip = ip
        self.failed = failed
        self._netns_of = netns_of
        self.port = port
        self.counters = EndpointCounters()
        self._own = _address_bytes(ip)
        self._line_rate = line_rate
        self._pacer = Pacer()
        self._ports: dict[int, _SourcePort] = {}
        self._outgoing: dict[int, _Outgoing] = {}
        self._turn: deque[_Outgoing] = deque()
        self._incoming: dict[int, _Incoming] = {}
        self._states: dict[tuple[bytes, bytes, int, int], int] = {}
        self._buffer = memoryview(bytearray(_MAX_DATAGRAM))
        self.loop = loop or EndpointLoop()
        self._own_loop = loop is None
        self._socket = self._open(port)
        _grow_receive_buffer(self._socket)
        self.loop.watch(self._socket, self._on_readable)
        self.loop.add(self)

    def __enter__(self) -> UdpEndpoint:
        """Return the endpoint."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the endpoint."""
        self.close()

    def close(self) -> None:
        """Close all sockets, and the loop unless it was given."""
        for port in self._ports.values():
            if port.waiting:
                self.loop.unwatch(port.socket)
            port.socket.close()
        self.loop.remove(self)
        self.loop.unwatch(self._socket)
        if self._own_loop:
            self.loop.close()
        self._socket.close()

    # -- queue pairs ------------------------------------------------------------------------------------------

    def add_sender(
        self,
        qp: int,
        sender: Sender,
        peer_ip: str,
        udp_src: int,
        done: Callable[[Any], None] = lambda tag: None,
        *,
        dscp: int = 0,
    ) -> None:
        """Attach a requester as local queue pair ``qp``.

        Args:
            qp: its number.
            sender: makes the packets.
            peer_ip: address of the responder.
            udp_src: source port of the packets.
            done: called with the tag of each completed message.
            dscp: of the packets; those of queue pairs with one source port may differ in it.
        """
        if qp in self._outgoing:
            raise InputError("this queue pair number is taken", field="qp", value=qp)
        peer = _address_bytes(peer_ip)
        if udp_src not in self._ports:
            self._ports[udp_src] = _SourcePort(udp_src, self._open(udp_src))
        marks = [(socket.IPPROTO_IP, socket.IP_TOS, bytes((dscp << 2,)))] if dscp else []
        outgoing = _Outgoing(qp, sender, self._ports[udp_src], peer, (peer_ip, self.port), done, marks)
        self._outgoing[qp] = outgoing
        self._turn.append(outgoing)

    def remove_sender(self, qp: int) -> None:
        """Detach a requester; a packet that waits for its socket is dropped, as if it were lost on the way."""
        outgoing = self._outgoing.pop(qp)
        outgoing.held = None
        if outgoing in self._turn:
            self._turn.remove(outgoing)

    def add_receiver(
        self,
        qp: int,
        receiver: Receiver,
        peer_ips: Iterable[str],
        arrived: Callable[[int, int], None] = lambda va, length: None,
    ) -> None:
        """Attach a responder as local queue pair ``qp``; ``arrived(va, length)`` is called for each whole message.

        Packets for it that come from another address than those of its peer count as unknown. Acknowledgements go to
        the address that sent the packet.
        """
        if qp in self._incoming:
            raise InputError("this queue pair number is taken", field="qp", value=qp)
        peers = {_address_bytes(ip): (ip, self.port) for ip in peer_ips}
        self._incoming[qp] = _Incoming(receiver, peers, arrived)

    def remove_receiver(self, qp: int) -> None:
        """Remove the receiver of a queue pair."""
        del self._incoming[qp]

    # -- sending ----------------------------------------------------------------------------------------------

    def transmit(self, now: float) -> float | None:
        """Send the packets that may leave now; return the time of the next ones (None: only after an arrival)."""
        turn, passed = self._turn, 0
        while passed < len(turn) and now >= self._pacer.ready_at:
            outgoing = turn[0]
            turn.rotate(-1)
            packet = outgoing.sender.poll(now) if outgoing.held is None else None
            if packet is not None and self._send(outgoing, packet, now):
                passed = 0
            else:
                passed += 1
                if outgoing.sender.error:
                    self._drop(outgoing)
        wake: float | None = None
        for outgoing in turn:
            deadline = outgoing.sender.deadline() if outgoing.held is None else None
            if deadline is not None and (wake is None or deadline < wake):
                wake = deadline
        return None if wake is None else max(wake, self._pacer.ready_at)

    def _drop(self, outgoing: _Outgoing) -> None:
        self._turn.remove(outgoing)
        self.failed(outgoing.qp, f"to {outgoing.address[0]}: {outgoing.sender.error}")

    def _send(self, outgoing: _Outgoing, packet: Write, now: float) -> bool:
        """Send a packet, or hold it until the socket is writable; false if it is held."""
        size = write_frame_bytes(packet)
        port = outgoing.port
        state = self._state(self._own, outgoing.peer, port.number, size)
        try:
            port.socket.sendmsg(encode_write(packet, state), outgoing.marks, 0, outgoing.address)
        except BlockingIOError:
            if not port.waiting:
                self.loop.watch(port.socket, lambda: self._on_writable(port), selectors.EVENT_WRITE)
            port.waiting.append(outgoing)
            outgoing.held = packet
            return False
        except OSError as error:
            self._survive(error, len(packet.payload))
        self._pacer.spend(size + ETHERNET_IP_UDP_BYTES, self._line_rate, now)
        return True

    def _on_writable(self, port: _SourcePort) -> None:
        self.loop.unwatch(port.socket)
        waiting, port.waiting = port.waiting, []
        for outgoing in waiting:
            packet, outgoing.held = outgoing.held, None
            if packet is not None:
                self._send(outgoing, packet, time.monotonic())

    def _survive(self, error: OSError, payload: int) -> None:
        if error.errno == errno.EMSGSIZE:
            raise InputError(
                "full packets do not fit the network interface: lower the path MTU or raise the interface's",
                field="mtu",
                value=payload,
            ) from error
        if error.errno not in _LOST:
            raise error
        self.counters.send_failures += 1

    def _on_readable(self) -> None:
        buffer = self._buffer
        for _ in range(_RECEIVE_BATCH):
            try:
                size, (source_ip, source_port) = self._socket.recvfrom_into(buffer)
            except BlockingIOError:
                return
            source = socket.inet_aton(source_ip)
            state = self._state(source, self._own, source_port, size)
            try:
                packet = decode(buffer[:size], state)
            except FrameError:
                self.counters.refused += 1
                continue
            if isinstance(packet, Ack):
                self._on_ack(packet, source)
            else:
                self._on_write(packet, source)

    def _on_ack(self, ack: Ack, source: bytes) -> None:
        outgoing = self._outgoing.get(ack.qp)
        if outgoing is None or outgoing.peer != source:
            self.counters.unknown_qp += 1
            return
        for tag in outgoing.sender.on_ack(ack, time.monotonic()):
            outgoing.done(tag)

    def _on_write(self, packet: Write, source: bytes) -> None:
        incoming = self._incoming.get(packet.qp)
        address = None if incoming is None else incoming.peers.get(source)
        if incoming is None or address is None:
            self.counters.unknown_qp += 1
            return
        ack, arrival = incoming.receiver.on_packet(packet)
        if ack is not None:
            state = self._state(self._own, source, self.port, ACK_FRAME_BYTES)
            try:
                self._socket.sendto(encode_ack(ack, state), address)
            except BlockingIOError:
                self.counters.send_failures += 1  # as good as lost: the requester asks again
            except OSError as error:
                self._survive(error, 0)
        if incoming.receiver.error and ack is not None:
            self.failed(packet.qp, f"from {address[0]}: {incoming.receiver.error}")
        if arrival is not None:
            incoming.arrived(arrival.va, arrival.length)

    # -- sockets ----------------------------------------------------------------------------------------------

    def _state(self, src: bytes, dst: bytes, src_port: int, size: int) -> int:
        """``ip_udp_crc``, remembered: flows and packet sizes are few."""
        key = (src, dst, src_port, size)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= _CACHED_STATES:
                self._states.clear()
            state = self._states[key] = ip_udp_crc(src, dst, src_port, self.port, size)
        return state

    def _open(self, port: int) -> socket.socket:
        """Open a non-blocking UDP socket on (own address, port) whose datagrams have DF and identification 0."""
        if not 0 < port <= MAX_PORT:
            raise InputError("a UDP port is 1 to 65535", field="port", value=port)
        if self._netns_of is None:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        else:
            sock = socket_in_netns_of(self._netns_of, socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
            sock.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
            sock.bind((self.ip, port))
        except OSError as error:
            sock.close()
            reason = error.strerror or str(error)
            raise InputError(f"cannot use this address and UDP port: {reason}", value=f"{self.ip}:{port}") from error
        return sock


def _address_bytes(ip: str) -> bytes:
    try:
        address = ipaddress.IPv4Address(ip)
    except ValueError:
        raise InputError("not an IPv4 address", field="ip", value=ip) from None
    if address.is_unspecified or address.is_multicast:
        raise InputError("not the address of one host", field="ip", value=ip)
    return address.packed


def _grow_receive_buffer(sock: socket.socket) -> None:
    """Enlarge the receive buffer, to hold an incast of many windows while this process waits for a processor."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER)
    except OSError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
