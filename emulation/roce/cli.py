"""The commands ``server``, ``client`` and ``agent``: ``main(argv)`` returns the exit code.

Exit codes: 0 done; 1 failed (no answer, a damaged message, a wrong sum); 2 invalid input, reported in one line.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from controller.model.errors import InputError
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT

PROGRAM = "python -m emulation.roce"
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Errors in one line, without the usage text before them."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None, *, prog: str = PROGRAM) -> int:
    """Run one of the commands; ``prog`` is the program name in messages."""
    try:
        # SIGTERM ends an endpoint like Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        arguments = _parser(prog).parse_args(argv)
        code: int = arguments.command(arguments)
    except SystemExit as stop:  # bad arguments or --help: the caller may have more to do than to exit
        return int(stop.code or 0)
    except InputError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _parser(prog: str) -> argparse.ArgumentParser:
    from emulation.roce.sender import SenderOptions
    from emulation.roce.server import CONTROL_PORT
    from emulation.roce.wire import PATH_MTUS

    parser = _Parser(prog=prog, description="RoCE-like endpoints: RDMA writes over UDP port 4791.", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="server|client|agent")

    server = commands.add_parser("server", help="receive writes from clients and check them", allow_abbrev=False)
    server.add_argument("--bind", required=True, metavar="IP", help="own address")
    server.add_argument("--once", action="store_true", help="end after the first client")
    server.set_defaults(command=_server)

    client = commands.add_parser("client", help="write to a server and measure", allow_abbrev=False)
    client.add_argument("server", metavar="SERVER", help="address of the server")
    client.add_argument("--bind", metavar="IP", help="own address (default: by the route to the server)")
    much = client.add_mutually_exclusive_group()
    much.add_argument("--bytes", type=_size, metavar="N", help="number of bytes; K, M, G for powers of 1024")
    much.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="duration in seconds (default %(default)s)"
    )
    client.add_argument(
        "--message-bytes", type=_size, default=1 << 20, metavar="N", help="length of a message (default 1M)"
    )
    client.add_argument(
        "--udp-src",
        type=_numbers(int),
        default=[49152],
        metavar="PORT,...",
        help="UDP source port; several: as many queue pairs (default 49152)",
    )
    client.add_argument(
        "--shares",
        type=_numbers(float),
        default=[],
        metavar="X,...",
        help="the ports are pieces of one flow; the share of its bytes and rate for each",
    )
    defaults = SenderOptions()
    client.add_argument(
        "--rate-mbps", type=float, default=defaults.line_rate / 1e6, metavar="R", help="line rate, Mbit/s"
    )
    client.add_argument("--mtu", type=int, default=defaults.mtu, metavar="|".join(map(str, PATH_MTUS)), help="path MTU")
    client.add_argument(
        "--window",
        type=int,
        default=defaults.window,
        metavar="PACKETS",
        help="maximum number of unacknowledged packets",
    )
    client.add_argument(
        "--ack-every",
        type=int,
        default=defaults.ack_every,
        metavar="PACKETS",
        help="interval between requests for an acknowledgement",
    )
    client.add_argument(
        "--retries", type=int, default=defaults.retries, metavar="N", help="consecutive timeouts before failure"
    )
    client.set_defaults(command=_client)

    agent = commands.add_parser("agent", help="the part of one host in collectives", allow_abbrev=False)
    agent.add_argument("--config", required=True, metavar="FILE|-", help="JSON (docs/explanation/roce.md); -: stdin")
    agent.set_defaults(command=_agent)

    for command in (server, client):
        command.add_argument(
            "--control-port",
            type=_port,
            default=CONTROL_PORT,
            metavar="PORT",
            help="TCP port of the control connection",
        )
        command.add_argument("--port", type=_port, default=ROCE_PORT, help="UDP port of RoCE (default %(default)s)")
        command.add_argument("--format", choices=("table", "json"), default="table")
    return parser


def _server(arguments: argparse.Namespace) -> int:
    from emulation.roce.server import RoceServer

    def report(result: dict[str, Any]) -> None:
        _print(result, arguments.format, _server_text)

    def opened(client: str, queue_pairs: int) -> None:
        tell(f"client {client} has opened {queue_pairs} queue pair{'s' * (queue_pairs > 1)}")

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    with RoceServer(
        arguments.bind, control_port=arguments.control_port, port=arguments.port, opened=opened, report=report
    ) as server:
        tell(f"listening on {arguments.bind}")
        try:
            server.serve(lambda: arguments.once and server.reported > 0)
        except KeyboardInterrupt:
            return 0  # that is how a server ends
    return 0


def _client(arguments: argparse.Namespace) -> int:
    from emulation.roce.client import SendOrder, measure
    from emulation.roce.sender import SenderOptions

    load = SendOrder(arguments.udp_src, arguments.shares, arguments.message_bytes, arguments.bytes, arguments.seconds)
    options = SenderOptions(
        mtu=arguments.mtu,
        window=arguments.window,
        ack_every=arguments.ack_every,
        line_rate=arguments.rate_mbps * 1e6,
        retries=arguments.retries,
    )
    result = measure(
        arguments.server,
        load,
        options,
        ip=arguments.bind,
        control_port=arguments.control_port,
        port=arguments.port,
    )
    _print(result, arguments.format, _client_text)
    return 0 if result["server"]["intact"] else 1


def _agent(arguments: argparse.Namespace) -> int:
    import os

    # One thread a host: the BLAS that comes with numpy would start one for each processor, and nothing here uses it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from emulation.roce.agent import run_agent

    return run_agent(arguments.config)


def _print(result: dict[str, Any], form: str, text: Any) -> None:
    print(json.dumps(result) if form == "json" else text(result), flush=True)


def _client_text(result: dict[str, Any]) -> str:
    rows = [_flow_text(f"port {flow['udp_src']}", flow, result["seconds"]) for flow in result["flows"]]
    if len(rows) > 1:
        rows.append(_flow_text("together", result, result["seconds"]))
    rows.append("every message arrived intact" if result["server"]["intact"] else "MESSAGES WERE DAMAGED")
    return "\n".join(rows)


def _flow_text(name: str, flow: dict[str, Any], seconds: float) -> str:
    return (
        f"{name:<10}  {flow['bytes'] / 1e6:10.2f} MB  {seconds:8.2f} s  {flow['goodput_gbps'] * 1e3:10.2f} Mbit/s  "
        f"{flow['packets']} packets, {flow['retransmissions']} sent again, {flow['timeouts']} timeouts"
    )


def _server_text(result: dict[str, Any]) -> str:
    if "error" in result:
        return f"{result['client']}: {result['error']}"
    return (
        f"{result['client']}: {result['messages']} messages, {result['bytes'] / 1e6:.2f} MB, "
        f"{result['seconds']:.2f} s, {result['duplicates']} duplicates, {result['out_of_sequence']} out of sequence, "
        + ("intact" if result["intact"] else "DAMAGED")
    )


def _size(text: str) -> int:
    """``64``, ``10K``, ``1.5M``, ``2G``."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper(), 1)
    try:
        value = int(float(text[:-1]) * factor) if factor > 1 else int(text)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"not a number of bytes: {text!r}") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1: {text!r}")
    return value


def _port(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 0 < value <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"a port must be 1 to 65535: {text!r}")
    return value


def _numbers(kind: Any) -> Any:
    def parse(text: str) -> list[Any]:
        try:
            return [kind(part) for part in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"not numbers separated by commas: {text!r}") from None

    return parse
