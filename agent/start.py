"""The start and the end of the agent."""

from __future__ import annotations

import logging
import os
import signal
import socket
from pathlib import Path

from agent.agent import HostAgent, Intervals
from agent.connection.carrier_conversation import CarrierConversation
from agent.connection.controller_connection import ControllerConnection, access
from agent.connection.conversation import PlanProvider
from agent.errors import HostAgentError
from agent.linux.bpf_egress import forget
from agent.linux.bpf_kernel import PROGRAM, BpfKernel
from agent.linux.host_settings import HostSettings
from agent.linux.kernel import Kernel, MapKernel, RouteKernel, drop_table, explained
from agent.linux.kernel_routes import KernelRoutes
from agent.linux.netlink import NETLINK_ROUTE, NetlinkSocket
from agent.linux.pacer import PACING_CHOICES, HtbPacer, NoPacer, PaceKeeper
from agent.linux.unreachable import UnreachableSocket
from agent.plans.plan_file import PlanFile
from agent.plans.saved_files import SavedFiles

LOG = logging.getLogger("fairspine.agent")

STOPS = (signal.SIGTERM, signal.SIGINT)
AUTO, NFT, EBPF, ROUTE = "auto", "nft", "ebpf", "route"
LOCK = "\0fairspine-agent"
"""An abstract Unix socket: there is one in each network namespace."""


def run(
    host: str,
    given: tuple[str, Path | None, Path | None, Path | None, Path | None],
    steered: tuple[str, str, int, Path],
    intervals: Intervals,
    state: Path,
    *,
    pacing: str,
    plan: Path | None,
    keep: bool,
    remove: bool,
) -> None:
    """Run the agent of a host, or remove what one has left.

    Args:
        host: its name.
        given: URL, file of the token, certificates to trust, own certificate and key.
        steered: way of steering, interface, table, file of the eBPF program.
        intervals: how often.
        state: the folder of what is saved.
        pacing: one of ``PACING_CHOICES``.
        plan: a file with the plan, in place of the controller's; ``None``: there is none.
        keep: leave the kernel as it is at the end.
        remove: only remove.

    Raises:
        HostAgentError: an option or the machine is wrong.
    """
    url, token_file, *certificates = given
    allowed = access(url, token_of(token_file), *certificates)
    _check_rights()
    lock = locked(LOCK)
    # A signal that comes before the agent can be stopped waits until then, so that nothing is left half done.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    files = SavedFiles(state)
    # What an agent before this one has set is removed, whatever this one may do.
    pacer = _pacer("htb" if remove else pacing, steered[1])
    kernel = _kernel(*steered)
    one = HostAgent(kernel, HostSettings(steered[1], files.settings()), files, intervals, pacer)
    if remove:
        one.remove()
        return
    for number in STOPS:
        signal.signal(number, lambda *_: one.stop())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    LOG.info("host %s: steering by %s", host, kernel.name)
    source: PlanProvider
    if plan is None:
        plans, reports = ControllerConnection(host, allowed), ControllerConnection(host, allowed)
        source = CarrierConversation(host, plans, reports, one.take)
    else:
        source = PlanFile(host, plan, one.take)
    one.run(source, files.plan(host))
    if not keep:
        one.remove()
    lock.close()


def token_of(path: Path | None) -> str | None:
    """Return the secret of a token: that of a file, or of the environment; ``None``: there is none.

    Raises:
        HostAgentError: the file cannot be read, or holds none.
    """
    if path is None:
        return os.environ.get("FAIRSPINE_TOKEN") or None
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise HostAgentError(f"--token-file {path}: {reason}", exit_code=2) from None
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise HostAgentError(f"--token-file {path}: holds no token", exit_code=2)
    return token


def _check_rights() -> None:
    try:
        UnreachableSocket().close()
        NetlinkSocket(NETLINK_ROUTE).close()
    except PermissionError as error:
        raise explained(error) from None
    except OSError as error:
        raise HostAgentError(f"IPv6 is not available: {error.strerror}", exit_code=2) from None


def locked(name: str) -> socket.socket:
    """Return a lock of this network namespace, which holds until it is closed.

    Raises:
        HostAgentError: another process has it.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(name)
    except OSError:
        raise HostAgentError("an agent runs already in this network namespace") from None
    return lock


def _pacer(pacing: str, interface: str) -> PaceKeeper:
    if pacing not in PACING_CHOICES:
        raise HostAgentError(f"--pacing: is {', '.join(PACING_CHOICES)}, and not {pacing!r}", exit_code=2)
    try:
        pacer = HtbPacer(interface, replaces_queues=pacing == "htb")
    except HostAgentError as error:
        if pacing == "htb":
            raise
        return NoPacer(str(error))
    if pacing == "off":
        try:
            pacer.remove()
        except OSError as error:
            raise explained(error) from None
        return NoPacer("--pacing off")
    return pacer


def _kernel(steering: str, interface: str, table: int, program: Path) -> Kernel:
    if steering not in (AUTO, NFT, EBPF, ROUTE):
        raise HostAgentError(f"--steering: is auto, nft, ebpf or route, and not {steering!r}", exit_code=2)
    try:
        routes = KernelRoutes(interface, table)
        kernel = BpfKernel(routes, interface, program) if steering == EBPF else _without_program(steering, routes)
        kernel.prepare()
        # What an agent with another way of steering has left would steer, too.
        if kernel.name != NFT:
            drop_table()
        if kernel.name != EBPF:
            forget(socket.if_nametoindex(interface), PROGRAM)
        return kernel
    except OSError as error:
        raise explained(error) from None


def _without_program(steering: str, routes: KernelRoutes) -> Kernel:
    if steering == ROUTE:
        return RouteKernel(routes)
    try:
        kernel = MapKernel(routes)
        kernel.prepare()
        return kernel
    except HostAgentError as error:
        if steering == NFT:
            raise
        LOG.warning("%s; flows to one destination take one path", error)
        return RouteKernel(routes)
