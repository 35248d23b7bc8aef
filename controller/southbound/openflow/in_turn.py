"""Work off the event loop for many switches at the same moment: one thread, which handles waiting calls together.

Threads that all run Python gain nothing from each other, and the event loop has to get the interpreter's lock against
every one of them. And if each piece of work had to wait for the event loop before the next one began, a thousand
switches would wait for a thousand of its rounds, each of which is long when they all connect.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from eventlet.event import Event
from ryu.lib import hub

TOGETHER_SECONDS = 0.05
"""Seconds after which callers with finished work are woken before more is begun."""


class _Task:
    """One call: the function, its arguments, and its result."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function, self._args = function, args
        self._result: Any = None
        self._error: Exception | None = None
        self.done = Event()

    def work(self) -> None:
        """Call the function and keep its result or error; runs in the thread."""
        try:
            self._result = self._function(*self._args)
        except Exception as error:
            self._error = error

    def tell(self, error: Exception | None = None) -> None:
        """Wake the caller, on the event loop; ``error``: the function could not be run."""
        error = error or self._error
        if error is None:
            self.done.send(self._result)
        else:
            self.done.send_exception(error)


class InTurn:
    """Runs functions in the order in which they were given."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        """Keep ``execute(function, *args)``, which runs a function in a thread and blocks the calling greenlet."""
        self._execute = execute
        self._waiting: deque[_Task] = deque()
        self._running = False

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function when it is its turn, block the calling greenlet, return its result or raise its exception."""
        task = _Task(function, args)
        self._waiting.append(task)
        if not self._running:
            self._running = True
            hub.spawn(self._run)
        return task.done.wait()

    def _run(self) -> None:
        try:
            while self._waiting:
                tasks = list(self._waiting)
                self._waiting.clear()
                try:
                    done = self._execute(_work, tasks, TOGETHER_SECONDS)
                except Exception as error:
                    # There is no thread: waiting callers must not block forever.
                    for task in tasks:
                        task.tell(error)
                else:
                    self._waiting.extendleft(reversed(tasks[done:]))
                    for task in tasks[:done]:
                        task.tell()
        finally:
            self._running = False


def _work(tasks: Sequence[_Task], seconds: float) -> int:
    """Do some, one at least; return how many."""
    ends = time.perf_counter() + seconds
    for done, task in enumerate(tasks, start=1):
        task.work()
        if time.perf_counter() > ends:
            return done
    return len(tasks)
