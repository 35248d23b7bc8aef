"""A thread that works beside an experiment until a ``with`` block ends."""

from __future__ import annotations

import abc
import threading
from types import TracebackType
from typing import Self


class LoopThread(abc.ABC):
    """A thread that runs ``_run`` while ``with`` lasts; what that raises is raised at the end."""

    def __init__(self, name: str) -> None:
        """Prepare the thread of this name."""
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the thread; raise what it met, unless the block has an error of its own."""
        self._ended.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    @abc.abstractmethod
    def _run(self) -> None:
        """Work until ``_ended`` is set."""

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception as error:
            self._error = error
