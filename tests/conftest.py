"""Settings of all tests: Hypothesis, signals, kernels that are compiled once, and a line on what was skipped."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from tests.unit.laws import examples

ROOT = Path(__file__).parents[1]
COMPILED = "fairspine/compiled"
"""Where pytest's cache keeps the names of the files of all compiled kernels."""

# Time is never asserted: machines are noisy, and the first example of a kernel compiles it.
settings.register_profile("fairspine", max_examples=examples(25, 500), deadline=None, print_blob=True)
settings.load_profile("fairspine")

# A shell starts background commands with SIGINT ignored, nohup ignores SIGHUP, and children inherit that: tests that
# send either signal to a program would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What is loaded until tests run stays to the end, and looking through it again and again takes as long as loading it.
gc.disable()

# Every process that a test starts would compile all modules of this project again: nearly half of the time in which
# a controller starts. Compiled kernels are kept in the same folders anyhow.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the kernels unless that is done, before several workers would each compile them."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    import controller.routing.kernels  # noqa: F401 (removes kernels that were compiled of other code)

    # Without the plugin (-p no:cacheprovider) there is none, and the warm-up runs each time.
    cache = getattr(session.config, "cache", None)
    known = set(cache.get(COMPILED, ())) if cache is not None else set()
    if known and known <= _compiled():
        return
    warm_up = "from controller.cli.main import main; main(['warm-up'])"
    done = subprocess.run([sys.executable, "-c", warm_up], cwd=ROOT, stdout=subprocess.DEVNULL)
    if cache is not None and done.returncode == 0:
        cache.set(COMPILED, sorted(_compiled()))


def pytest_collection_finish() -> None:
    """Take modules and tests, which stay to the end, out of what each garbage collection visits."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _compiled() -> set[str]:
    """Return the names of the files in which Numba keeps compiled kernels."""
    folders = (ROOT / "controller", ROOT / "emulation")
    return {str(file.relative_to(ROOT)) for folder in folders for file in folder.rglob("*.nbc")}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how many tests were skipped and why, most frequent reason first."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    if reasons:
        parts = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"{reasons.total()} tests were skipped ({parts})")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test, or a module, was skipped."""
    where = report.longrepr
    return where[2].removeprefix("Skipped: ") if isinstance(where, tuple) else str(where)
