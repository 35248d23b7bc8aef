"""The agent loads no large library."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"numpy", "numba", "ryu", "eventlet", "httpx", "pydantic", "networkx", "sqlalchemy", "yaml"}


def test_the_agent_needs_the_standard_library_and_typer_only() -> None:
    shown = "import agent.start, agent.command, sys; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())
