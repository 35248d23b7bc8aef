"""Makes Ryu 4.34 importable with an eventlet that is safe to use. Nothing of Ryu may be imported before this.

``ryu.app.wsgi`` reads ``eventlet.wsgi.ALREADY_HANDLED``, a marker that eventlet dropped in 0.30.3. The last eventlet
that has it cannot be imported on Python 3.10 or newer, and every one before 0.40.3 has known security holes. Ryu
only returns the marker from its own WebSocket responses, which this program does not use, so any object will do.
"""

from __future__ import annotations

import os
import warnings


def prepare() -> None:
    """Set the missing name. Harmless when called again, and when eventlet is imported already."""
    # Eventlet's own resolver takes as long to load as NumPy. Names are resolved before the event loop starts, or in
    # threads.
    os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
    with warnings.catch_warnings():
        # Eventlet warns of its retirement at every import, which is of no use to operators.
        warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
        import eventlet.wsgi
    if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
        eventlet.wsgi.ALREADY_HANDLED = object()


def share_logging_with_threads() -> None:
    """Let worker threads and the event loop log at the same time; called once eventlet has patched ``threading``.

    The locks of ``logging`` are then eventlet's. A thread that waits for one of them, because another thread logs,
    waits for ever: eventlet wakes only greenlets of the thread that has released it. Nothing yields to another greenlet
    while it holds these locks, so the system's own are right.
    """
    import logging

    from eventlet import patcher

    native = patcher.original("threading").RLock

    def create_lock(handler: logging.Handler) -> None:
        handler.lock = native()

    logging._lock = native()  # type: ignore[attr-defined]
    logging.Handler.createLock = create_lock  # type: ignore[assignment]
    for reference in logging._handlerList:  # type: ignore[attr-defined]
        if (handler := reference()) is not None:
            handler.createLock()
