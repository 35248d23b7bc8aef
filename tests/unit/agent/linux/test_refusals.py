"""What a kernel refuses is explained in one line."""

from __future__ import annotations

import errno
import os
import re
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from agent.errors import HostAgentError
from agent.linux import host_settings
from agent.linux.host_settings import HostSettings
from agent.linux.kernel import RouteKernel, explained
from agent.linux.kernel_routes import MOST_TRIES, KernelRoutes
from agent.linux.kernel_state import KernelState, changes
from agent.linux.netlink import NetlinkSocket

ROUTE = changes(KernelState(), KernelState(routes={bytes(4): IPv6Address("fcbb:bb00:1::")}))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.EPERM, "needs root (CAP_NET_ADMIN and CAP_NET_RAW)"),
        (errno.EOPNOTSUPP, "this kernel does not take SRv6 routes (CONFIG_IPV6_SEG6_LWTUNNEL): "),
        (errno.EINVAL, "this kernel does not take SRv6 routes (CONFIG_IPV6_SEG6_LWTUNNEL): "),
        (errno.ENOSPC, "the kernel refuses a change: "),
        (errno.ENOMEM, "the kernel refuses a change: "),
    ],
)
def test_a_route_that_the_kernel_refuses_is_one_line(code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*_: object, **__: object) -> list[OSError]:
        asked.append(code)
        return [OSError(code, os.strerror(code))]

    monkeypatch.setattr(NetlinkSocket, "__init__", lambda *_: None)
    monkeypatch.setattr(NetlinkSocket, "change", refuse)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(OSError, match=re.escape(os.strerror(code))) as refused:
        RouteKernel(KernelRoutes("lo", 250)).change(ROUTE)
    # A kernel may lack memory for a moment.
    assert len(asked) == (MOST_TRIES if code == errno.ENOMEM else 1)
    error = explained(refused.value)
    assert str(error).startswith(said)
    assert len(str(error).splitlines()) == 1


def test_a_kernel_without_srv6_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_settings, "SYSCTL", tmp_path)
    with pytest.raises(HostAgentError) as refused:
        HostSettings("eth0", {}).accept_segments()
    assert (str(refused.value), refused.value.exit_code) == ("this kernel has no SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL)", 2)
