"""Connections that can be cut: relays between two programs, which hold back what is sent meanwhile.

A cut is silent, as that of a cable is: nothing is refused or closed. What was sent arrives when the relay is mended, as
TCP would send it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

CHUNK_BYTES = 64 * 1024

Address = tuple[str, int] | Path
"""TCP (host, port), or the path of a Unix socket."""

T = TypeVar("T")


class Relays:
    """The relays of one campaign; an event loop in a thread of its own moves their bytes."""

    def __init__(self) -> None:
        """Start the thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._relays: list[CutRelay] = []

    def __enter__(self) -> Relays:
        """Start to move bytes."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all connections."""
        for relay in self._relays:
            self._do(relay._close())
        self._do(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, listen: Address, target: Address, *, refusal: bytes = b"") -> CutRelay:
        """Relay each connection to ``listen`` on to ``target``; refused ones get ``refusal`` and end at once."""
        relay = CutRelay(self, target, refusal)
        self._do(relay._listen(listen))
        self._relays.append(relay)
        return relay

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _end_tasks(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class CutRelay:
    """Made by ``Relays.add``."""

    def __init__(self, relays: Relays, target: Address, refusal: bytes) -> None:
        """Prepare a relay that is whole."""
        self._relays, self._target, self._refusal = relays, target, refusal
        self._whole = asyncio.Event()
        self._whole.set()
        self._server: asyncio.Server | None = None
        self._seen: Callable[[bytes], None] = _ignore

    def cut(self) -> None:
        """Let nothing pass."""
        self._relays._do(self._set(False))

    def mend(self) -> None:
        """Let pass what was held back, and what follows."""
        self._relays._do(self._set(True))

    def redirect(self, target: Address) -> None:
        """Relay later connections to another target; those there are stay."""
        self._target = target

    def watch(self, seen: Callable[[bytes], None]) -> None:
        """Call ``seen`` with all that the targets send from now on, before it is relayed; it must not block."""
        self._seen = seen

    async def _set(self, whole: bool) -> None:
        if whole:
            self._whole.set()
        else:
            self._whole.clear()

    async def _listen(self, address: Address) -> None:
        if isinstance(address, Path):
            self._server = await asyncio.start_unix_server(self._carry, address)
        else:
            self._server = await asyncio.start_server(self._carry, *address)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._whole.wait()
            try:
                far_reader, far_writer = await self._open()
            except OSError:
                writer.write(self._refusal)
                await writer.drain()
                raise
            try:
                ways = [self._pump(reader, far_writer, _ignore), self._pump(far_reader, writer, self._tell)]
                tasks = [asyncio.ensure_future(way) for way in ways]
                # Both directions end together.
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                far_writer.close()
        writer.close()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    def _tell(self, chunk: bytes) -> None:
        self._seen(chunk)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[bytes], None]
    ) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await self._whole.wait()
            seen(chunk)
            writer.write(chunk)
            await writer.drain()
        await self._whole.wait()


def _ignore(chunk: bytes) -> None:
    """Do nothing with what passes."""
