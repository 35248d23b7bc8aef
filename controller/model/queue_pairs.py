"""Queue pairs (QPs): over how many of them a connection sends, and which part of its bytes each of them carries.

A connection is one edge of a collective: one sender, one receiver, one channel. NCCL opens several QPs for each
(``NCCL_IB_QPS_PER_CONNECTION``). Each QP is a flow of its own with its own UDP source port, so that ECMP hashes, and
a plan places, each separately.

*split* (``NCCL_IB_SPLIT_DATA_ON_QPS=1``): every message is cut into equal parts, one for each QP; the message is
complete when its last part is. *round_robin* (NCCL's default since 2.20): message m goes whole over QP ``m mod qps``.
As many messages are outstanding as there are QPs, so all QPs send at once, and the transfer is complete when the last
message is. In both modes a connection therefore proceeds at ``qps`` times the rate of its slowest QP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.model.choices.qp_mode import QpMode
from controller.model.fabric import IntArray

MESSAGE_BYTES = 512 * 1024
"""Bytes of a message in mode ``round_robin``: NCCL's buffer of 4 MiB (``NCCL_BUFFSIZE``) has eight slots."""


@dataclass(frozen=True, slots=True)
class QueuePairs:
    """The QPs of each connection of a collective.

    Attributes:
        count: QPs of a connection, 1 to ``MOST_QPS``.
        mode: whether a message is cut into parts for all QPs, or messages take turns.
    """

    count: int = 1
    mode: QpMode = "split"

    @property
    def in_turn(self) -> bool:
        """Whether whole messages are sent over several QPs by turns; then a plan cannot choose the shares of QPs."""
        return self.count > 1 and self.mode == "round_robin"

    def shares(self, size: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes [F, count] that each QP carries of transfers of ``size`` [F] bytes; rows add up to it.

        ``split``: equal up to one byte. ``round_robin``: whole messages, so equal up to one message; a transfer of
        fewer messages than QPs leaves some QPs without bytes.

        >>> QueuePairs(4).shares(np.array([10])).tolist()
        [[3, 3, 2, 2]]
        >>> QueuePairs(4, "round_robin").shares(np.array([6 * MESSAGE_BYTES - 1])).tolist()
        [[1048576, 1048575, 524288, 524288]]
        """
        turn = np.arange(self.count, dtype=np.int64)
        whole = size[:, None].astype(np.int64)
        if self.mode == "split":
            return whole // self.count + (turn < whole % self.count)
        messages = -(-whole // MESSAGE_BYTES)
        carried = messages // self.count + (turn < messages % self.count)
        share = carried * MESSAGE_BYTES
        # Only the last message may be shorter.
        missing = messages * MESSAGE_BYTES - whole
        share[turn == (messages - 1) % self.count] -= missing[:, 0]
        return share


ONE_QP = QueuePairs()
"""One QP a connection: the connection is one flow."""


def udp_source_port(local_qpn: NDArray[np.integer[Any]], remote_qpn: NDArray[np.integer[Any]]) -> IntArray:
    """Return the UDP source port [F] that Linux gives a RoCEv2 QP, from both QP numbers (24 bits each).

    ``rdma_calc_flow_label`` and ``rdma_flow_label_to_udp_sport`` of Linux 5.8 and later (include/rdma/ib_verbs.h),
    which mlx5 and rxe use for connections without a flow label: the product of the numbers, folded to 20 bits, and
    these to 14 bits above 0xC000.
    """
    product = local_qpn.astype(np.uint64) * remote_qpn.astype(np.uint64)
    product ^= product >> np.uint64(20)
    product ^= product >> np.uint64(40)
    label = (product & np.uint64(0xFFFFF)).astype(np.int64)
    port: IntArray = ((label & 0x3FFF) ^ (label >> 14) | 0xC000).astype(np.int32)
    return port
