"""The lines of an NCCL log that matter, as values. Which versions print which form, ``nccl/__init__.py`` says."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_CHANNELS = 1024
"""More than any version has (64); a larger number is no channel."""

NOBODY = -1
"""As a neighbour in a tree: there is none."""

ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
"""By the number that versions before 2.27 print."""

# NCCL writes a line into a buffer of 1024 characters, with its prefix.
_FULL = 1000


class Thread(NamedTuple):
    """Who wrote a line; ``gpu`` is the CUDA device."""

    host: str
    pid: int
    tid: int
    gpu: int


class Init(NamedTuple):
    """A rank of a communicator is being made (``START``), is made (``COMPLETE``), or tells about itself (neither).

    Attributes:
        gpu, bus: CUDA device, and where it is in the server; -1 and empty where the line tells none.
        id: hash that all ranks of the communicator share; 0 where the line tells none.
        parent: pointer of the communicator that it was split from, with ``color`` and the number of the split
            (``None``: not told).
        n_servers: 0 where the line tells none.
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


class Ring(NamedTuple):
    channel: int
    prev: int
    rank: int
    next: int


class Order(NamedTuple):
    """A ring as rank 0 tells it, cut where the line is too long."""

    channel: int
    ranks: tuple[int, ...]


class Tree(NamedTuple):
    """``up`` and ``down`` may be ``NOBODY``."""

    channel: int
    rank: int
    up: int
    down: tuple[int, ...]


class Trees(NamedTuple):
    trees: tuple[Tree, ...]
    cut: bool


class Connection(NamedTuple):
    """``src`` sends to ``dst`` on a channel.

    Attributes:
        kind: 0 for collectives, 1 for send and receive; ``None`` where the line does not tell.
        receiver: the receiver wrote this line.
        net: network transport as it calls itself, empty where none is used; ``device`` is the NIC's number in it.
        proxy: rank whose NIC it is, where that is not the writer's.
    """

    channel: int
    kind: int | None
    src: int
    dst: int
    receiver: bool
    net: str = ""
    device: int = 0
    proxy: int | None = None


class RingsConnected(NamedTuple):
    pass


class Operation(NamedTuple):
    name: str
    elements: int
    datatype: int
    root: int
    pointer: int
    n_ranks: int


class Choice(NamedTuple):
    """By which algorithm an operation of so many bytes is done; ``channels`` are the first and the last."""

    name: str
    bytes: int
    algorithm: str
    channels: tuple[int, int] | None


class Devices(NamedTuple):
    """Names of NICs by number."""

    net: str
    names: dict[int, str]


class OnlyAlgorithms(NamedTuple):
    """``NCCL_ALGO`` was set."""

    value: str


Message = (
    Init | Ring | Order | Tree | Trees | Connection | RingsConnected | Operation | Choice | Devices | OnlyAlgorithms
)

# A number that fits 64 bits: what is longer was not printed by NCCL.
_N = r"\d{1,18}"
_I = r"-?\d{1,9}"

_PREFIX = re.compile(rf"([A-Za-z0-9._-]+):(\d{{1,9}}):(\d{{1,9}}) \[ *({_I})\] +NCCL INFO +(.*)", re.DOTALL)
_INIT = re.compile(
    r"comm 0x([0-9a-f]{1,16}) rank (\d{1,9}) n[rR]anks (\d{1,9})\b(.*?)(?: ?- ?Init (START|COMPLETE))?\s*$"
)
_GPU = re.compile(r" cudaDev (\d{1,4})\b(?:.*? busId ([0-9a-f]{1,16})\b)?")
_SERVERS = re.compile(r" nNodes (\d{1,9})\b")
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
_ONLY = re.compile(r"NCCL_ALGO set by environment to (\S+?)\.?\s*$")


def split(line: str) -> tuple[Thread, str] | None:
    """Who wrote a line, and what it says; ``None``: it is not NCCL's.

    Launchers put text of their own before it. Where ranks share a file, one may begin its line after another's prefix:
    what follows is of the last one.
    """
    if "NCCL INFO" not in line:
        return None
    match = _PREFIX.search(line)
    if match is None:
        return None
    while (inner := _PREFIX.match(match[5])) is not None:
        match = inner
    host, pid, tid, gpu, message = match.groups()
    return Thread(host.partition(".")[0] or host, int(pid), int(tid), int(gpu)), message


def parse(message: str) -> Message | None:
    """What a line says; ``None``: nothing that matters here.

    Raises:
        ValueError: it begins like a line that matters and does not go on like one: cut, or two lines in one.
    """
    first = message[:4]
    if first == "Chan" or first == "Ring":
        return _channel(message)
    if first == "Tree":
        return _trees(message)
    if " opCount " in message:
        return _operation(message)
    if "comm 0x" in message and " rank " in message:
        return _init(message)
    if " Bytes -> Algo " in message:
        return _choice(message)
    if first == "NET/" and (": Using " in message or ": Made " in message):
        return _devices(message)
    if first == "Conn" and message.startswith("Connected all rings"):
        return RingsConnected()
    if first == "NCCL" and (match := _ONLY.match(message)):
        return OnlyAlgorithms(match[1].lower())
    return None


def _channel(message: str) -> Message:
    if match := _CONNECTION.match(message):
        channel, kind, src, dst, side, via = match.groups()
        row = Connection(
            _channel_number(channel), None if kind is None else int(kind), int(src), int(dst), side == "receive"
        )
        net = _NET.match(via)
        if net is None:
            return row
        return row._replace(net=net[1], device=int(net[2]), proxy=None if net[3] is None else int(net[3]))
    if match := _RING.match(message):
        channel, prev, rank, following = match.groups()
        return Ring(_channel_number(channel), int(prev), int(rank), int(following))
    if match := _ORDER.match(message):
        return Order(_channel_number(match[1]), tuple(int(rank) for rank in match[2].split()))
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
    # Down, rank, up; until 2.5 the other way round.
    rows = [(channel, rank, up, down) for channel, *down, rank, up in _OF_TREES.findall(message)] or [
        (channel, rank, up, down) for channel, up, rank, *down in _OF_OLD_TREES.findall(message)
    ]
    found = tuple(
        Tree(_channel_number(channel), int(rank), int(up), tuple(int(child) for child in down))
        for channel, rank, up, down in rows
    )
    if not found:
        raise ValueError(message)
    # The last tree of a line that fills the buffer may have lost digits.
    cut = len(message) >= _FULL
    return Trees(found[:-1] if cut else found, cut)


def _operation(message: str) -> Message:
    match = _OPERATION.match(message)
    if match is None:
        raise ValueError(message)
    name, count, datatype, root, pointer, n_ranks = match.groups()
    return Operation(name, int(count), int(datatype), int(root), int(pointer, 16), int(n_ranks))


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
    if found := _GPU.search(rest):
        row = row._replace(gpu=int(found[1]), bus=found[2] or "")
    if found := _SERVERS.search(rest):
        row = row._replace(n_servers=int(found[1]))
    if found := _ID.search(rest):
        row = row._replace(id=int(found[1], 16))
    if found := _PARENT.search(rest):
        number = None if found[2] is None else int(found[2])
        row = row._replace(parent=int(found[1], 16), color=int(found[3]), split=number)
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
    return Choice(name or "", int(size), algorithm.lower(), channels)


def _devices(message: str) -> Message:
    if match := _MADE.match(message):
        return Devices(match[1], {int(match[2]): match[3]})
    match = _DEVICES.match(message)
    if match is None:
        raise ValueError(message)
    listed = match[2].partition(";")[0]
    return Devices(match[1], {int(number): name for number, name in _DEVICE.findall(listed)})
