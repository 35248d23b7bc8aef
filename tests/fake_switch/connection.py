"""The connection of a fake switch to its controller, and how it behaves on it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable
from dataclasses import dataclass

from ryu.ofproto import ofproto_v1_3 as ofp

from tests.fake_switch.decode import header
from tests.fake_switch.switch import FakeSwitch
from tests.openflow_writer import hello

RETRY_SECONDS = 0.1
"""Between two attempts to connect."""

LINGER_SECONDS = 0.02
"""How long a switch that reorders waits for more before it carries out what it has."""

MODS = (ofp.OFPT_FLOW_MOD, ofp.OFPT_GROUP_MOD)


@dataclass
class Temper:
    """How a switch behaves, besides what it does. It may be changed at any time.

    Attributes:
        silent: nothing is read and nothing said; what has come is carried out afterwards.
        echoes: whether echo requests are answered (at once, however slow the rest is).
        mod_seconds: what each flow-mod and group-mod takes.
        reply_seconds: what each barrier and each statistics request takes.
        unanswered: kinds of statistics requests (``OFPMP_...``) that get no answer.
        reorder: shuffles flow-mods and group-mods that no other message parts, as the standard allows (OpenFlow 1.3.5,
            section 6.2); ``None``: they are carried out in order.
    """

    silent: bool = False
    echoes: bool = True
    mod_seconds: float = 0.0
    reply_seconds: float = 0.0
    unanswered: frozenset[int] = frozenset()
    reorder: random.Random | None = None


class Connection:
    """Connects, and connects again whenever the connection ends, until it is ``held`` off or closed.

    All methods belong to the thread of the event loop.
    """

    def __init__(self, switch: FakeSwitch, address: tuple[str, int], temper: Temper) -> None:
        self.switch, self.address, self.temper = switch, address, temper
        self.held = False
        """Stay away from the controller."""
        self.connects = 0
        """How many connections there were."""
        self._writer: asyncio.StreamWriter | None = None
        self._greeted = False
        self._running = asyncio.get_running_loop().create_task(self._run())

    @property
    def connected(self) -> bool:
        """Whether the controller has asked who this is."""
        return self._greeted

    def tell(self, message: bytes) -> None:
        """Send a message that answers nothing; dropped where there is no controller, or nothing is said."""
        if self._greeted and not self.temper.silent:
            self._say([message])

    def cut(self) -> None:
        """End the connection without a word."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def close(self) -> None:
        """End for good."""
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def _run(self) -> None:
        while True:
            if not self.held:
                with contextlib.suppress(OSError):
                    reader, self._writer = await asyncio.open_connection(*self.address)
                    try:
                        await self._converse(reader, self._writer)
                    finally:
                        self._writer.transport.abort()
                        self._writer, self._greeted = None, False
            await asyncio.sleep(RETRY_SECONDS)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connects += 1
        writer.write(hello())
        waiting: asyncio.Queue[bytes] = asyncio.Queue()
        work = asyncio.create_task(self._work(waiting))
        try:
            while True:
                data = await reader.readexactly(8)
                head = header(data)
                data += await reader.readexactly(head.length - 8)
                while self.temper.silent:
                    await asyncio.sleep(LINGER_SECONDS)
                if head.type != ofp.OFPT_ECHO_REQUEST:
                    waiting.put_nowait(data)
                elif self.temper.echoes:
                    self._say(self.switch.receive(data))
        except asyncio.IncompleteReadError:
            pass
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work

    async def _work(self, waiting: asyncio.Queue[bytes]) -> None:
        shuffled: list[bytes] = []
        while True:
            data = None
            with contextlib.suppress(TimeoutError):
                data = await asyncio.wait_for(waiting.get(), LINGER_SECONDS) if shuffled else await waiting.get()
            if data is not None and header(data).type in MODS and self.temper.reorder is not None:
                shuffled.append(data)
                continue
            if shuffled:
                (self.temper.reorder or random.Random(0)).shuffle(shuffled)
            for each in (*shuffled, *([] if data is None else [data])):
                await self._carry_out(each)
            shuffled = []

    async def _carry_out(self, data: bytes) -> None:
        kind = header(data).type
        if kind in MODS and self.temper.mod_seconds:
            await asyncio.sleep(self.temper.mod_seconds)
        if kind in (ofp.OFPT_BARRIER_REQUEST, ofp.OFPT_MULTIPART_REQUEST) and self.temper.reply_seconds:
            await asyncio.sleep(self.temper.reply_seconds)
        while self.temper.silent:
            await asyncio.sleep(LINGER_SECONDS)
        if kind == ofp.OFPT_MULTIPART_REQUEST and int.from_bytes(data[8:10], "big") in self.temper.unanswered:
            return
        if self._writer is None or self._writer.is_closing():
            # What came before the connection was cut must not be carried out after it.
            return
        self._say(self.switch.receive(data))
        self._greeted = self._greeted or kind == ofp.OFPT_FEATURES_REQUEST

    def _say(self, answers: Iterable[bytes]) -> None:
        for answer in answers:
            if self._writer is not None and not self._writer.is_closing():
                self._writer.write(answer)
