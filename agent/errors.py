"""The error that ends the agent, or makes it wait."""

from __future__ import annotations


class HostAgentError(Exception):
    """One line for the log or standard error.

    Attributes:
        exit_code: 2 if an option or the machine must be changed, 1 if a later try may succeed.
    """

    def __init__(self, reason: str, *, exit_code: int = 1) -> None:
        """Store the reason, one line of text, and the exit code."""
        super().__init__(reason)
        self.exit_code = exit_code
