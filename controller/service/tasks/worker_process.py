"""A process for work that would keep the interpreter's lock: parsing and expanding large jobs.

The controller's event loop shares its interpreter with the worker threads. A thread that runs Python code lets the
loop in every few milliseconds; one long call into C (a JSON parser, pydantic, unpickling many objects) does not. Such
calls run here. Requests and answers are pickled (function, arguments) and (worked, result), one at a time; the
process ends when its standard input does, so it never outlives the controller.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from controller.model.errors import UnavailableError


class Worker:
    """The parent's end of the pipes. Not thread-safe; the process is started when it is needed first."""

    def __init__(self, start: Callable[[list[str]], subprocess.Popen[bytes]]) -> None:
        """Keep ``start``, which runs a command with pipes for standard input and output that block the thread."""
        self._start = start
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a module-level function over there, block this thread, return its result or raise its exception.

        Raises:
            UnavailableError: the process died; the next call starts another one.
        """
        process = self._process = self._process or self._start(
            [sys.executable, "-m", "controller.service.tasks.worker_process"]
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((function, args), process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            worked, result = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self.close()
            # Not logged here: this is a thread of its own, and logging's locks belong to the event loop.
            raise UnavailableError(f"the worker process ended during its work ({type(error).__name__})") from None
        if not worked:
            raise result
        return result

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            # Bytes for a process that has died cannot be flushed.
            with suppress(OSError), process:
                process.kill()


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while True:
        try:
            function, args = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = (True, function(*args))
        except Exception as error:
            answer = (False, error)
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    # Ctrl-C in a terminal goes to the whole group; the controller decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Where memory runs out, this process goes first: the controller starts another one.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # nothing that prints may end up among the answers
    serve(sys.stdin.buffer, answers)
