"""Settings of the host that SRv6 needs: set at the start, and set back at the end."""

from __future__ import annotations

import subprocess
from ipaddress import IPv6Address
from pathlib import Path

from agent.errors import HostAgentError

SYSCTL = Path("/proc/sys/net/ipv6/conf")
NO_SOURCE = "::"


class HostSettings:
    """The settings that were changed, with the values before; these are plain data to be saved.

    Attributes:
        interface: the one that leads to the leaf.
        before: values before the change, by what they are of.
    """

    def __init__(self, interface: str, before: dict[str, str]) -> None:
        """Begin with what an agent before this one has changed."""
        self.interface, self.before = interface, before

    def accept_segments(self) -> None:
        """Make the kernel accept packets with segments.

        Raises:
            HostAgentError: the kernel has no SRv6, or it cannot be set.
        """
        for name in ("all", self.interface):
            path = SYSCTL / name / "seg6_enabled"
            try:
                value = path.read_text().strip()
                if value != "1":
                    path.write_text("1\n")
                    self.before.setdefault(str(path), value)
            except FileNotFoundError:
                raise HostAgentError("this kernel has no SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL)", exit_code=2) from None
            except OSError as error:
                raise HostAgentError(f"{path} cannot be set to 1: {error.strerror}", exit_code=2) from None

    def send_from(self, source: IPv6Address) -> None:
        """Set the source address of packets with a carrier.

        Raises:
            HostAgentError: it cannot be set.
        """
        shown = _ip("sr", "tunsrc", "show").split()
        value = shown[-1] if shown else NO_SOURCE
        if value != str(source):
            _ip("sr", "tunsrc", "set", str(source))
            self.before.setdefault("tunsrc", value)

    def restore(self) -> None:
        """Set all back that was changed, as far as it is still there."""
        for name, value in self.before.items():
            if name == "tunsrc":
                _ip("sr", "tunsrc", "set", value)
            elif (path := Path(name)).exists():
                path.write_text(value + "\n")
        self.before = {}


def _ip(*arguments: str) -> str:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        raise HostAgentError("the program ip is missing (Debian: apt-get install iproute2)", exit_code=2) from None
    if done.returncode:
        reason = next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
        raise HostAgentError(f"ip {' '.join(arguments)}: {reason}")
    return done.stdout
