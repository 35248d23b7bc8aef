"""The relevant lines of an NCCL log, as values. ``nccl/__init__.py`` lists the forms of each version."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_CHANNELS = 1024
"""More than any version has (64); a larger number is not a channel."""

NOBODY = -1
"""The neighbour in a tree where there is none."""

ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
"""Algorithms by the number that versions before 2.27 print."""

# NCCL writes a line into a buffer of 1024 characters, with its prefix.
_FULL = 1000


class Thread(NamedTuple):
    """The thread that wrote a line; ``gpu`` is the CUDA device."""

    host: str
    pid: int
    tid: int
    gpu: int


class Init(NamedTuple):
    """A rank of a communicator is being created (``START``), is created (``COMPLETE``), or reports its state (neither).

    Attributes:
        gpu: CUDA device; -1 where the line has none.
        bus: position of the device in the server; empty where the line has none.
        id: hash shared by all ranks of the communicator; 0 where the line has none.
        parent: pointer of the communicator that it was split from, with ``color`` and the number of the split
            (``None``: unknown).
        n_servers: 0 where the line has none.
        local: the rank's position among the ranks of its server; -1: unknown.
        n_local: number of ranks of its server; 0: unknown.
        host_hash: NCCL's hash of the server; 0: unknown.
    """

    pointer: int
    rank: int
    n_ranks: int
    state: str
    gpu: int = -1
    bus: str = ""
    id: int = 0
    parent: int | None = None
    color: int = 0
    split: int | None = None
    n_servers: int = 0
    local: int = -1
    n_local: int = 0
    host_hash: int = 0


class RingNeighbours(NamedTuple):
    """The ring neighbours of a rank on a channel."""

    channel: int
    prev: int
    rank: int
    next: int


class RingOrder(NamedTuple):
    """A ring as rank 0 prints it, cut where the line is too long."""

    channel: int
    ranks: tuple[int, ...]


class Tree(NamedTuple):
    """The tree neighbours of a rank on a channel; ``up`` and ``down`` may be ``NOBODY``."""

    channel: int
    rank: int
    up: int
    down: tuple[int, ...]


class Trees(NamedTuple):
    """The tree neighbours of a rank on all channels; ``cut`` if the line may be incomplete."""

    trees: tuple[Tree, ...]
    cut: bool


class ChannelConnection(NamedTuple):
    """A connection by which ``src`` sends to ``dst`` on a channel.

    Attributes:
        kind: 0 for collectives, 1 for send and receive; ``None`` where it is unknown.
        receiver: whether the receiver wrote this line.
        net: name of the network transport, empty where none is used; ``device`` is the NIC's number in it.
        proxy: rank that has the NIC, if it is not the writer.
        within: whether the transport works only between ranks of one server (P2P or shared memory).
    """

    channel: int
    kind: int | None
    src: int
    dst: int
    receiver: bool
    net: str = ""
    device: int = 0
    proxy: int | None = None
    within: bool = False


class RingsConnected(NamedTuple):
    """The rings of a communicator are connected."""


class LoggedOperation(NamedTuple):
    """An operation that a rank has started."""

    name: str
    elements: int
    datatype: int
    root: int
    pointer: int
    n_ranks: int


class AlgorithmChoice(NamedTuple):
    """The algorithm of an operation of ``bytes`` bytes; ``channels`` are the first and the last."""

    name: str
    bytes: int
    algorithm: str
    channels: tuple[int, int] | None


class Devices(NamedTuple):
    """Names of NICs by number."""

    net: str
    names: dict[int, str]


class OnlyAlgorithms(NamedTuple):
    """The value of ``NCCL_ALGO``, which was set."""

    value: str


class QpSetting(NamedTuple):
    """``NCCL_IB_QPS_PER_CONNECTION`` or ``NCCL_IB_SPLIT_DATA_ON_QPS``, which was set."""

    name: str
    value: int


class Address(NamedTuple):
    """The IP address by which the process contacts the others."""

    value: str


Message = (
    Init
    | RingNeighbours
    | RingOrder
    | Tree
    | Trees
    | ChannelConnection
    | RingsConnected
    | LoggedOperation
    | AlgorithmChoice
    | Devices
    | OnlyAlgorithms
    | QpSetting
    | Address
)

# A number that fits 64 bits: longer ones are not from NCCL.
_N = r"\d{1,18}"
_I = r"-?\d{1,9}"

_PREFIX = re.compile(rf"([A-Za-z0-9._-]+):(\d{{1,9}}):(\d{{1,9}}) \[ *({_I})\] +NCCL INFO +(.*)", re.DOTALL)
_INIT = re.compile(
    r"comm 0x([0-9a-f]{1,16}) rank (\d{1,9}) n[rR]anks (\d{1,9})\b(.*?)(?: ?- ?Init (START|COMPLETE))?\s*$"
)
_GPU = re.compile(r" cudaDev (\d{1,4})\b(?:.*? busId ([0-9a-f]{1,16})\b)?")
_SERVERS = re.compile(r" nNodes (\d{1,9})\b")
_LOCAL = re.compile(r" localRanks (\d{1,9}) localRank (\d{1,9})\b")
_HOST_HASH = re.compile(r" hostHash (?:0x)?([0-9a-f]{1,16})\b")
_ID = re.compile(r" commId 0x([0-9a-f]{1,16})\b")
_PARENT = re.compile(rf" parent 0x([0-9a-f]{{1,16}})(?: splitCount ({_I}))? color ({_I}|\d{{10}})")
_RING = re.compile(rf"Ring (\d{{1,4}}) : ({_I}) -> (\d{{1,9}}) -> ({_I})\s*$")
_ORDER = re.compile(r"Channel (\d{1,4})(?:/\d{1,4})? :((?: +\d{1,9})+)\s*$")
_TREE = re.compile(rf"Tree (\d{{1,4}}) : ({_I}) -> (\d{{1,9}}) -> ({_I})/({_I})/({_I})\s*$")
_OF_TREES = re.compile(rf"\[(\d{{1,4}})\] ({_I})/({_I})/({_I})->(\d{{1,9}})->({_I})")
_OF_OLD_TREES = re.compile(rf"\[(\d{{1,4}})\] ({_I})->(\d{{1,9}})->({_I})/({_I})/({_I})")
_CONNECTION = re.compile(
    r"(?:Channel|Ring) (\d{1,4})(?:/(\d{1,4}))? : (\d{1,9})(?:\[[^]]*\])? -> (\d{1,9})(?:\[[^]]*\])?"
    r"(?: \[(send|receive)\])? via (\S.*?)\s*$"
)
_NET = re.compile(r"NET/(.*?)/(\d{1,4})(?:\((\d{1,9})\))?(?:[/(].*)?$")
_OPERATION = re.compile(
    rf"(\w+): opCount [0-9a-f]+ sendbuff \S+ recvbuff \S+ (?:acc \S+ )?count ({_N}) datatype (\d{{1,4}}) "
    rf"op {_N} root ({_I}) comm 0x([0-9a-f]{{1,16}}) \[nranks=(\d{{1,9}})\]"
)
_CHOICE = re.compile(
    rf"(?:(\w+): +)?({_N}) Bytes -> Algo (\w+) proto \w+(?: time \S+)?"
    r"(?: channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\})?"
)
_DEVICES = re.compile(r"NET/([^:]*?) ?: Using (.*)")
_MADE = re.compile(r"NET/([^:]*?) ?: Made virtual device \[(\d{1,4})\] name=(\S+)")
_DEVICE = re.compile(r"\[(\d{1,4})\](?:=\{\[\d+\] ?)?([A-Za-z0-9_.-]+):")
_ADDRESS = re.compile(r"Bootstrap ?: Using \S+?:(\S+)<\d{1,5}>")
# RCCL names the communicator at the end of the lines about its rings, trees and connections.
_RCCL_END = re.compile(r" comm 0x[0-9a-f]{1,16} nRanks \d{1,9}(?: busId [0-9a-f]{1,16})?\s*$")
# nccl-tests ends a column without a line break ("-1", "0.25"), and another process's line follows. No hostname begins
# with "-" (RFC 952), and NCCL cuts names at the first dot.
_GLUED = re.compile(r"(?:-\d{1,9}|-?\d{1,9}\.\d{1,9})(?=[A-Za-z])")
_WITHIN = re.compile(r"(?:P2P/|SHM|direct shared memory)(?!.*MNNVL)")
_QPS = re.compile(r"NCCL_IB_(QPS_PER_CONNECTION|SPLIT_DATA_ON_QPS) set by environment to (\d{1,19})\.?\s*$")
_ONLY = re.compile(r"NCCL_ALGO set by environment to (\S+?)\.?\s*$")


def split(line: str) -> tuple[Thread, str] | None:
    """Split a line into its writer and its message; ``None``: it is not from NCCL.

    Launchers put their own text before it. Where ranks share a file, a line may begin after another's prefix: the
    message belongs to the last one.
    """
    if "NCCL INFO" not in line:
        return None
    match = _PREFIX.search(line)
    if match is None:
        return None
    while (inner := _PREFIX.match(match[5])) is not None:
        match = inner
    host, pid, tid, gpu, message = match.groups()
    if (glued := _GLUED.match(host)) is not None:
        host = host[glued.end() :]
    return Thread(host.partition(".")[0] or host, int(pid), int(tid), int(gpu)), message


def parse(message: str) -> Message | None:
    """Parse a message; ``None``: it is not relevant here.

    Raises:
        ValueError: it begins like a relevant line and does not continue like one: it is cut, or two lines in one.
    """
    first = message[:4]
    if first in ("Chan", "Ring", "Tree"):
        message = _RCCL_END.sub("", message)
        return _trees(message) if first == "Tree" else _channel(message)
    if " opCount " in message:
        return _operation(message)
    if "comm 0x" in message and " rank " in message:
        return _init(message)
    if " Bytes -> Algo " in message:
        return _choice(message)
    if first == "NET/" and (": Using " in message or ": Made " in message):
        return _devices(message)
    if first == "Boot" and (match := _ADDRESS.match(message)):
        return Address(match[1])
    if first == "Conn" and message.startswith("Connected all rings"):
        return RingsConnected()
    if first == "NCCL" and (match := _ONLY.match(message)):
        return OnlyAlgorithms(match[1].lower())
    if first == "NCCL" and (match := _QPS.match(message)):
        return QpSetting(match[1], int(match[2]))
    return None


def _channel(message: str) -> Message:
    if match := _CONNECTION.match(message):
        channel, kind, src, dst, side, via = match.groups()
        row = ChannelConnection(
            _channel_number(channel), None if kind is None else int(kind), int(src), int(dst), side == "receive"
        )
        net = _NET.match(via)
        if net is None:
            return row._replace(within=_WITHIN.match(via) is not None)
        return row._replace(net=net[1], device=int(net[2]), proxy=None if net[3] is None else int(net[3]))
    if match := _RING.match(message):
        channel, prev, rank, following = match.groups()
        return RingNeighbours(_channel_number(channel), int(prev), int(rank), int(following))
    if match := _ORDER.match(message):
        return RingOrder(_channel_number(match[1]), tuple(int(rank) for rank in match[2].split()))
    raise ValueError(message)


def _channel_number(text: str) -> int:
    number = int(text)
    if number >= MAX_CHANNELS:
        raise ValueError(text)
    return number


def _trees(message: str) -> Message:
    if match := _TREE.match(message):
        channel, up, rank, *down = match.groups()
        return Tree(_channel_number(channel), int(rank), int(up), tuple(int(child) for child in down))
    # Down, rank, up; until 2.5 in reverse order.
    rows = [(channel, rank, up, down) for channel, *down, rank, up in _OF_TREES.findall(message)] or [
        (channel, rank, up, down) for channel, up, rank, *down in _OF_OLD_TREES.findall(message)
    ]
    rooted = tuple(
        Tree(_channel_number(channel), int(rank), int(up), tuple(int(child) for child in down))
        for channel, rank, up, down in rows
    )
    if not rooted:
        raise ValueError(message)
    # The last tree of a line that fills the buffer may have lost digits.
    cut = len(message) >= _FULL
    return Trees(rooted[:-1] if cut else rooted, cut)


def _operation(message: str) -> Message:
    match = _OPERATION.match(message)
    if match is None:
        raise ValueError(message)
    name, count, datatype, root, pointer, n_ranks = match.groups()
    return LoggedOperation(name, int(count), int(datatype), int(root), int(pointer, 16), int(n_ranks))


def _init(message: str) -> Message | None:
    match = _INIT.search(message)
    if match is None:
        if "Init START" in message or "Init COMPLETE" in message:
            raise ValueError(message)
        return None
    pointer, rank, n_ranks, rest, state = match.groups()
    if state is None and " nNodes " not in rest:
        return None  # being destroyed, or bootstrapped
    if int(rank) >= int(n_ranks):
        raise ValueError(message)
    row = Init(int(pointer, 16), int(rank), int(n_ranks), state or "")
    if part := _GPU.search(rest):
        row = row._replace(gpu=int(part[1]), bus=part[2] or "")
    if part := _SERVERS.search(rest):
        row = row._replace(n_servers=int(part[1]))
    if part := _LOCAL.search(rest):
        row = row._replace(n_local=int(part[1]), local=int(part[2]))
    if part := _HOST_HASH.search(rest):
        row = row._replace(host_hash=int(part[1], 16))
    if part := _ID.search(rest):
        row = row._replace(id=int(part[1], 16))
    if part := _PARENT.search(rest):
        number = None if part[2] is None else int(part[2])
        row = row._replace(parent=int(part[1], 16), color=int(part[3]), split=number)
    return row


def _choice(message: str) -> Message | None:
    match = _CHOICE.match(message)
    if match is None:
        raise ValueError(message)
    name, size, algorithm, low, high = match.groups()
    if algorithm.isdigit():
        number = int(algorithm[:4])
        algorithm = ALGORITHMS[number] if number < len(ALGORITHMS) else algorithm
    channels = None if low is None else (_channel_number(low), _channel_number(high))
    if channels is not None and channels[0] > channels[1]:
        raise ValueError(message)
    return AlgorithmChoice(name or "", int(size), algorithm.lower(), channels)


def _devices(message: str) -> Message:
    if match := _MADE.match(message):
        return Devices(match[1], {int(match[2]): match[3]})
    match = _DEVICES.match(message)
    if match is None:
        raise ValueError(message)
    listed = match[2].partition(";")[0]
    return Devices(match[1], {int(number): name for number, name in _DEVICE.findall(listed)})
