"""Settings of all tests: the Hypothesis profile, and default signal handlers."""

from __future__ import annotations

import signal

from hypothesis import settings

# Time is never asserted: machines are noisy, and the first example of a kernel compiles it.
settings.register_profile("fairspine", deadline=None, print_blob=True)
settings.load_profile("fairspine")

# A shell starts background commands with SIGINT ignored, nohup ignores SIGHUP, and children inherit that: tests that
# send either signal to a program would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
