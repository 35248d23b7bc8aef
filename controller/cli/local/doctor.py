"""``fairspine doctor``: check the machine, the installation and the configuration."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.connection.config_file import config_file, read_config
from controller.cli.connection.remote import Remote
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.output import Printer, plural
from controller.model.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from controller.cli.local.machine_checks import MachineCheck
    from controller.config import Settings

_SECONDS = 5.0
"""Limit on each program that is run and on each server that is asked."""

_STYLES = {"ok": "", "warning": "yellow", "problem": "bold red"}


def doctor(
    config: Annotated[
        Path | None,
        typer.Option("--config-file", metavar="FILE", help="The controller's configuration file; default: none."),
    ] = None,
    hosts: Annotated[
        bool, typer.Option("--hosts", help="Check instead what works at hosts that carry out plans, by their agents.")
    ] = False,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Check kernel, Open vSwitch, packages, configuration, ports, store, and the controller if one is running.

    Prints a line a check, with what to do. A problem is something that the controller needs. A warning is
    something that only the lab ('fairspine emulate', 'make lab') needs, or that costs time.

    With --hosts, it asks the controller and prints a line a host: its agent, whether routers answer its probes (ICMP),
    the source ports of its flows, the verbs shim, its RDMA device, and the kind of the routers' hash. What nothing
    reports is unknown.
    """
    if hosts:
        _show_hosts(remote, output)
        return
    checks = list(_checks(config, remote))
    if output.is_table:
        for one in checks:
            mend = f" -> {one.mend}" if one.mend else ""
            output.line(f"{one.state}: {one.check}: {one.found}{mend}", _STYLES[one.state])
    else:
        output.document({"checks": [dataclasses.asdict(one) for one in checks]})
    problems = sum(one.state == "problem" for one in checks)
    if problems:
        raise CommandError(f"{plural(problems, 'problem')} found")


def _show_hosts(remote: Remote, output: Printer) -> None:
    from controller.cli.connection.client import described, described_rows
    from controller.cli.local.host_checks import host_check

    answer = described(remote.client().request("GET", "hosts").document, "hosts")
    checks = [host_check(row) for row in described_rows(answer["hosts"], "host", "takes_part", "heard_seconds")]
    if not output.is_table:
        output.document({"hosts": [dataclasses.asdict(one) for one in checks]})
    elif not checks:
        output.line("switches carry out plans, and no host needs an agent", "")
    else:
        names = [field.name for field in dataclasses.fields(checks[0])]
        cells = (tuple(str(getattr(one, name)) for name in names) for one in checks)
        output.table(plural(len(checks), "host"), names, cells, give_up=("device", "shim", "hash"))
    problems = sum(one.state == "problem" for one in checks)
    if problems:
        raise CommandError(f"{plural(problems, 'host')} with problems")


def _checks(config: Path | None, remote: Remote) -> Iterator[MachineCheck]:
    from controller.cli.local.machine_checks import CheckState, MachineCheck, controller, of_input

    installation = list(_installation())
    yield from installation
    yield from _machine()
    yield of_input("config file", _readable, "correct this file")
    answer = _controller(remote)
    if any(one.state is CheckState.PROBLEM for one in installation):
        yield MachineCheck("configuration", CheckState.WARNING, "not checked", "install the packages first")
    else:
        yield _compiled_kernels()
        yield from _service(config, controller_runs=answer.health is not None)
    yield controller(answer.url, answer.health, answer.failure, asked_for=remote != Remote())


def _installation() -> Iterator[MachineCheck]:
    """Check Python and the packages."""
    import platform
    from importlib.metadata import PackageNotFoundError, metadata, requires, version

    from controller.cli.local import machine_checks

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    yield machine_checks.python(platform.python_version(), metadata("fairspine")["Requires-Python"] or "")
    requirements = requires("fairspine") or []
    yield machine_checks.packages(requirements, "", installed, needed=True)
    yield machine_checks.packages(requirements, "controller", installed, needed=True)
    yield machine_checks.packages(requirements, "emulation", installed, needed=False)


def _machine() -> Iterator[MachineCheck]:
    """Check what the lab needs of the machine."""
    import platform
    import shutil

    from controller.cli.local import machine_checks
    from emulation.needs import PROGRAMS

    is_root = os.geteuid() == 0
    yield machine_checks.root(is_root)
    failure = ""
    if is_root:
        _, failure = _run("unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "htb")
    yield machine_checks.kernel(platform.system(), is_root, failure)
    yield machine_checks.programs(PROGRAMS, lambda program: shutil.which(program) is not None)
    printed = _run("ovs-vswitchd", "--version")[0] if shutil.which("ovs-vswitchd") else None
    folder = os.environ.get("OVS_RUNDIR", "/var/run/openvswitch")
    yield machine_checks.open_vswitch(printed, Path(folder, "db.sock").is_socket())


def _compiled_kernels() -> MachineCheck:
    """Check the folder of compiled kernels."""
    from controller.cli.local import machine_checks
    from controller.compilation.temporary_cache import lasting_cache
    from controller.routing.kernels.lookup import first_rows

    folder = lasting_cache(first_rows.py_func)
    return machine_checks.compiled_kernels(None if folder is None else str(folder))


def _run(*argv: str) -> tuple[str, str]:
    """Return what a program prints, and why it failed (empty: it did not)."""
    import subprocess

    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    return done.stdout, "" if done.returncode == 0 else done.stderr.strip() or f"exit status {done.returncode}"


def _readable() -> str:
    content = read_config()
    if not config_file().exists():
        return f"{config_file()}: there is none, and none is needed"
    return f"{config_file()}: {plural(len(content.contexts), 'context')}"


@dataclass(frozen=True)
class _Answer:
    """The result of a request to the controller: its health, or the reason why there is no answer."""

    url: str
    health: Mapping[str, Any] | None
    failure: str


def _controller(remote: Remote) -> _Answer:
    from controller.cli.connection.client import described

    url = remote.url or ""
    try:
        client = remote.client(timeout=_SECONDS)
        url = client.url
        return _Answer(url, described(client.health().document, "status", "reasons"), "")
    except (CommandError, InputError) as error:
        return _Answer(url, None, str(error))


@dataclass(frozen=True)
class _Configured:
    """The controller's options, and the addresses on which it listens."""

    settings: Settings
    http: tuple[str, int]
    openflow: tuple[str, int]
    openflow_field: str


def _configured(path: Path | None) -> _Configured:
    """Read the controller's configuration file.

    Raises:
        InputError: it cannot be read, or has a value that the controller would refuse.
    """
    from controller.config import RYU_DEFAULTS, Settings, settings_from
    from controller.routing import followed

    kinds = {"str": str, "int": int, "float": float}
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)} | dict(RYU_DEFAULTS)
    values: dict[str, Any] = dict(defaults)
    given = _file(path) if path is not None else {}
    for name in given.keys() & defaults.keys():
        kind = kinds[type(defaults[name]).__name__]
        try:
            values[name] = kind(given[name])
        except ValueError:
            reason = f"must be of type {kind.__name__}"
            raise InputError(reason, field=name, value=given[name], source=str(path)) from None
    port = "ofp_ssl_listen_port" if given.get("ctl_privkey") else "ofp_tcp_listen_port"
    try:
        settings = settings_from(values, policies=followed())
    except InputError as error:
        raise error.with_source("" if path is None else str(path)) from None
    return _Configured(
        settings,
        (values["wsapi_host"], values["wsapi_port"]),
        (values["ofp_listen_host"], values[port]),
        port,
    )


def _file(path: Path) -> dict[str, str]:
    from oslo_config import cfg

    sections: dict[str, dict[str, list[str]]] = {}
    try:
        path.read_text()
        cfg.ConfigParser(str(path), sections).parse()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(getattr(error, "strerror", None) or "is not text", source=str(path)) from None
    except cfg.Error as error:
        raise InputError(" ".join(str(error).split()), source=str(path)) from None
    return {key: values[-1] for key, values in sections.get("DEFAULT", {}).items()}


def _service(path: Path | None, *, controller_runs: bool) -> Iterator[MachineCheck]:
    """Check what the controller needs to start with this configuration file."""
    from controller.cli.local import machine_checks
    from controller.model.files.fabric_file import load_fabric
    from controller.port_check import check_port
    from controller.rest.security.http_security import security_from
    from controller.rest.security.origin import url_of
    from controller.rest.security.peer_trust import trust_from

    try:
        configured = _configured(path)
    except InputError as error:
        problem = machine_checks.CheckState.PROBLEM
        yield machine_checks.MachineCheck("configuration", problem, str(error), "correct it (see etc/fairspine.conf)")
        return
    origin = str(path) if path is not None else "the defaults (--config-file names a file)"
    yield machine_checks.MachineCheck("configuration", machine_checks.CheckState.OK, origin)
    settings = configured.settings
    if settings.fabric:

        def fabric() -> str:
            return f"{settings.fabric}: {plural(len(load_fabric(settings.fabric).hosts), 'host')}"

        yield machine_checks.of_input("fabric", fabric, "correct this file, or the option fabric")
    host = configured.http[0]

    def secure() -> str:
        files = settings.tokens, settings.https_cert, settings.https_key, settings.agents_ca
        tls = security_from(host, *files).tls
        if settings.cluster_name:
            own = settings.cluster_url or url_of(*configured.http, socket.gethostname(), tls=tls is not None)
            trust_from(settings.cluster_ca, own, tls)
        return settings.tokens or f"no tokens; {host} is reachable from this machine only"

    yield machine_checks.of_input("access", secure, "docs/how-to/access.md")
    for what, (at, number), field in (
        ("OpenFlow", configured.openflow, configured.openflow_field),
        ("HTTP", configured.http, "wsapi_port"),
    ):
        busy = None
        try:
            check_port(at, number, field, what)
        except InputError as error:
            busy = error
        yield machine_checks.port(what, f"{at}:{number}", busy, controller_runs)
    yield _store(settings.store)


def _store(location: str) -> MachineCheck:
    """Check the store without changing it."""
    from controller.cli.local import machine_checks
    from controller.store.location import default_url, parse, shown
    from controller.store.upgrade import steps

    problem = machine_checks.CheckState.PROBLEM
    try:
        url = parse(location or default_url(os.environ))
        name = shown(url)
        if url.drivername == "sqlite" and url.database:
            _check_writable(Path(url.database))
        return machine_checks.schema(name, _step(url), steps())
    except InputError as error:
        return machine_checks.MachineCheck("store", problem, str(error), "set the option store, or its permissions")


def _check_writable(path: Path) -> None:
    """Check that the file, or a file in the nearest folder that exists, can be written."""
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if nearest != path and not nearest.is_dir():
        raise InputError("is not a folder", source=str(nearest))
    for needed in {nearest, path.parent if nearest == path else nearest}:
        if not os.access(needed, os.W_OK):
            raise InputError("this user cannot write there", source=str(needed))


def _step(url: URL) -> str | None:
    """Return the step of a database's tables, ``None`` if it has none.

    Raises:
        InputError: it cannot be read.
    """
    import sqlite3

    import sqlalchemy as sa

    from controller.store.location import shown, without_secrets
    from controller.store.schema import VERSION_TABLE

    if url.drivername == "sqlite":
        if not url.database or not Path(url.database).exists():
            return None
        # Immutable: no file is made beside the database, which might then belong to another user than the controller.
        file = f"{Path(url.database).resolve().as_uri()}?immutable=1"
        engine = sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(file, uri=True))
    else:
        engine = sa.create_engine(url, connect_args={"connect_timeout": int(_SECONDS)})
    try:
        with engine.connect() as connection:
            tables = sa.inspect(connection).get_table_names()
            if VERSION_TABLE not in tables:
                if tables and url.drivername == "sqlite":
                    raise InputError("is the database of another program", source=shown(url))
                return None
            step: sa.Result[Any] = connection.execute(
                sa.select(sa.column("version_num")).select_from(sa.table(VERSION_TABLE))
            )
            return str(step.scalar_one())
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        cause = getattr(error, "orig", None) or error
        raise InputError(f"cannot be read: {without_secrets(str(cause), url)}", source=shown(url)) from None
    finally:
        engine.dispose()
