"""The sending end of a connection: one or several QPs, over which its messages go as NCCL sends them.

``split``: each message is cut into a part for each QP (``NCCL_IB_SPLIT_DATA_ON_QPS=1``). ``round_robin``: transfers are
cut into messages of a given length, and each goes whole over one QP, in turn. Every write has immediate data: the
length of the message that it is, or is part of, by which NCCL's receiver completes it
(``IBV_WR_RDMA_WRITE_WITH_IMM`` in ``ncclIbMultiSend``, src/transport/net_ib.cc).
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.model.choices.qp_mode import QpMode
from emulation.roce.sender import Sender
from emulation.roce.shares import split


class QpConnection:
    """The QPs to one peer.

    Attributes:
        senders: a sender for each QP.
    """

    def __init__(self, senders: Sequence[Sender], shares: Sequence[float], mode: QpMode, message_bytes: int) -> None:
        """Send over these QPs; ``shares``: the part of the bytes of each, they add up to 1."""
        self.senders = senders
        self._shares = shares
        self._mode = mode
        self._message_bytes = message_bytes
        self._carried = [0] * len(senders)

    def post(self, data: memoryview, va: int, rkey: int) -> int:
        """Write ``data`` to ``va`` at the peer, and return the number of writes, which complete one by one."""
        if self._mode == "split":
            return self._split(data, va, rkey)
        starts = range(0, len(data), self._message_bytes)
        for start in starts:
            message = data[start : start + self._message_bytes]
            self._next_sender(len(message)).post(message, va + start, rkey, immediate=len(message))
        return len(starts)

    def _split(self, data: memoryview, va: int, rkey: int) -> int:
        posted = 0
        for sender, (start, end) in zip(self.senders, split(len(data), self._shares), strict=True):
            if end > start:
                sender.post(data[start:end], va + start, rkey, immediate=len(data))
                posted += 1
        return posted

    def _next_sender(self, length: int) -> Sender:
        """Return the QP that is furthest behind its share: with equal shares and messages, each one in turn."""
        behind = [(carried + length) / share for carried, share in zip(self._carried, self._shares, strict=True)]
        chosen = min(range(len(behind)), key=behind.__getitem__)
        self._carried[chosen] += length
        return self.senders[chosen]
