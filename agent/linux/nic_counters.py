"""Counters of the NIC of a host that show congestion: pause frames and drops by class, ECN marks, CNPs.

Drivers name their counters as they like. Those of mlx5, bnxt and ice are known here, both the ones that ``ethtool -S``
shows and the ones of RDMA (``/sys/class/infiniband``). What a driver does not count is ``None``, not 0.
"""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from array import array
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

CLASSES = 8
"""Classes of traffic: the priorities of IEEE 802.1Q."""

NicCounts = dict[str, int | list[int | None] | None]
"""Counters by the names of a report: a number, or one for each class."""

_BY_CLASS = {
    # mlx5, bnxt, ice.
    "pause_received": (r"rx_prio([0-7])_pause", r"rx_pfc_ena_frames_pri([0-7])", r"rx_priority_([0-7])_xoff\.nic"),
    "pause_sent": (r"tx_prio([0-7])_pause", r"tx_pfc_ena_frames_pri([0-7])", r"tx_priority_([0-7])_xoff\.nic"),
    "dropped": (r"rx_prio([0-7])_discards", r"rx_discard_packets_cos([0-7])"),
}
"""Counters of each class, as patterns of names, one for each driver."""

_OF_PORT = {
    "link_pause_received": ("rx_global_pause", "rx_pause_frames", "link_xoff_rx.nic"),
    "link_pause_sent": ("tx_global_pause", "tx_pause_frames", "link_xoff_tx.nic"),
    "received_dropped": ("rx_discards_phy", "rx_stat_discard", "rx_dropped.nic"),
    "sent_dropped": ("tx_discards_phy", "tx_stat_discard"),
    # The last one counts only what the kernel's own stack receives.
    "ecn_marked": ("np_ecn_marked_roce_packets", "rx_ecn_marked_pkts", "RxECNMrkd", "rx_ecn_mark"),
    "cnp_sent": ("np_cnp_sent", "tx_cnp_pkts", "cnpSent"),
    "cnp_received": ("rp_cnp_handled", "rx_cnp_pkts", "cnpHandled"),
}
"""Counters of the whole port, by their names with the drivers; the first that is there counts."""

SYS_NET = Path("/sys/class/net")

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSTATS, _GSSET_INFO = 0x1B, 0x1D, 0x37
_STATISTICS = 1
_NAME_BYTES, _SPARE = 32, 1024
"""``ETH_GSTRING_LEN``; room for counters that a driver adds between two questions (of more queues)."""


def nic_counters(interface: str) -> NicCounts:
    """Return the counters of an interface; ``None`` for those that cannot be read."""
    named: dict[str, int] = {}
    with suppress(OSError):
        named |= ethtool_counters(interface)
    return counts_of({**named, **rdma_counters(interface)})


def counts_of(named: Mapping[str, int]) -> NicCounts:
    """Return the counters of a report from those of a driver, by its own names."""
    counts: NicCounts = {name: _by_class(named, patterns) for name, patterns in _BY_CLASS.items()}
    for name, known in _OF_PORT.items():
        counts[name] = next((named[each] for each in known if each in named), None)
    return counts


def _by_class(named: Mapping[str, int], patterns: tuple[str, ...]) -> list[int | None] | None:
    for pattern in patterns:
        by_class: list[int | None] = [None] * CLASSES
        for name, value in named.items():
            if (match := re.fullmatch(pattern, name)) is not None:
                by_class[int(match[1])] = value
        if any(value is not None for value in by_class):
            return by_class
    return None


def ethtool_counters(interface: str) -> dict[str, int]:
    """Return the counters that ``ethtool -S`` shows (``SIOCETHTOOL``, linux/ethtool.h).

    Raises:
        OSError: there is no such interface, or its driver has none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        info = array("B", struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _STATISTICS, 0))
        _ask(sock, interface, info)
        _, _, mask, count = struct.unpack("=IIQI", info)
        if not mask or not count:
            return {}
        room = count + _SPARE
        names = array("B", struct.pack("=III", _GSTRINGS, _STATISTICS, count) + bytes(room * _NAME_BYTES))
        _ask(sock, interface, names)
        values = array("B", struct.pack("=II", _GSTATS, count) + bytes(8 * room))
        _ask(sock, interface, values)
    known = min(struct.unpack_from("=III", names)[2], struct.unpack_from("=II", values)[1], room)
    texts = [names[12 + n * _NAME_BYTES :][:_NAME_BYTES].tobytes() for n in range(known)]
    shown = [text.partition(b"\0")[0].decode(errors="replace").strip() for text in texts]
    return dict(zip(shown, struct.unpack_from(f"={known}Q", values, 8), strict=True))


def _ask(sock: socket.socket, interface: str, command: array[int]) -> None:
    address, _ = command.buffer_info()
    # struct ifreq: a name of 16 bytes, and a union of 24 bytes that begins with the pointer.
    fcntl.ioctl(sock, _SIOCETHTOOL, struct.pack("=16sQ16x", interface.encode()[:15], address))


def rdma_counters(interface: str, root: Path = SYS_NET) -> dict[str, int]:
    """Return the counters of the RDMA device of an interface, over all its ports; empty: there is none.

    ``root``: the folder of interfaces.
    """
    counters: dict[str, int] = {}
    for path in sorted((root / interface / "device" / "infiniband").glob("*/ports/*/hw_counters/*")):
        with suppress(OSError, ValueError):
            counters[path.name] = counters.get(path.name, 0) + int(path.read_text())
    return counters
