"""The ``ryu-manager`` of this environment: Ryu 4.34 on a current eventlet, with fairspine's options and defaults.

Ryu's own command cannot be imported with an eventlet that is safe to use (docs/explanation/ryu.md), reads options
before an application could register its own, and ignores what it does not know in a file. So the launcher prepares the
modules, registers and checks everything, and then calls ``ryu.cmd.manager.main()``.

Any fault of options, files or ports gives one line on stderr and exit status 2.
"""

from __future__ import annotations

# Nothing is imported up here that makes locks or sockets: eventlet has to patch the standard library first.
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from controller import ryu_compat

if TYPE_CHECKING:
    from controller.circuits.fabric.optical_fabric import OpticalFabric
    from controller.config import Settings
    from controller.model.fabric import Fabric
    from controller.startup import Startup

PROG = "ryu-manager"


def main(argv: Sequence[str] | None = None) -> int:
    """Check everything that can be checked, then hand over to Ryu until a signal comes. Returns the exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        ryu_compat.prepare()
        from ryu.lib import hub
    except ModuleNotFoundError as error:
        print(
            f"{PROG}: {error.name} is not installed: pip install 'fairspine[controller]' (make setup does)",
            file=sys.stderr,
        )
        return 2

    hub.patch(thread=True)
    ryu_compat.share_logging_with_threads()
    import contextlib
    import logging

    from controller import garbage

    # Modules are for the life of the process: collections amid their loading would take a tenth of the start.
    with garbage.lasting():
        from ryu.cfg import CONF
        from ryu.cmd import manager

        # Ryu logs at all levels until its own options are read, and these libraries log much, some on import.
        for talker in ("numba", "alembic", "sqlalchemy"):
            logging.getLogger(talker).setLevel(logging.WARNING)

        from controller import startup
        from controller.model.errors import InputError
        from controller.option_origins import naming_the_file
        from controller.routing.warm_up import warm_up
        from controller.routing.warm_up_instances import FabricKind
        from controller.southbound.wire import entry_hashes
        from controller.store.errors import StoreError

        try:
            start = _checked(args)
        except (InputError, StoreError) as error:
            shown = naming_the_file(error, CONF, args) if isinstance(error, InputError) else error
            print(f"{PROG}: {shown}", file=sys.stderr)
            return 2
    # Loads the compiled kernels, or compiles them where 'make setup' could not keep them: never inside a request.
    # Without a file the fabric is not known: most have two layers, and others' kernels are loaded by the first plan.
    fabric = start.configuration.intended
    if start.configuration.optical is not None:
        from controller.circuits import warm_up as warm_up_of_circuits

        warm_up_of_circuits.warm_up()
    else:
        warm_up([FabricKind() if fabric is None else FabricKind.of(fabric)])
    entry_hashes.warm_up()
    startup.announce(start)
    # The application makes tables of the fabric, and collects by a clock of its own when it starts (EventletRuntime).
    garbage.only_young()
    signalled = _close_on_signals()
    # A signal before Ryu waits for its services, and a second one while it closes, end up here.
    with contextlib.suppress(KeyboardInterrupt):
        manager.main(args=args, prog=PROG)
    if signalled():
        return 0
    # Only the OpenFlow listener can have ended. A status other than 0 makes the service manager restart the program.
    print(f"{PROG}: the OpenFlow listener has ended; the program stops", file=sys.stderr)
    return 1


def _checked(args: list[str]) -> Startup:
    """Check everything that can be checked before the start.

    Raises:
        InputError: the first thing that is.
        StoreError: the store cannot be used.
    """
    import os
    import socket
    from dataclasses import fields, replace
    from importlib.metadata import version
    from urllib.parse import urlsplit

    from controller.config import Settings, settings_from
    from controller.core.cluster_standing import ClusterSettings, ReplicaEntry
    from controller.core.configuration import Configuration
    from controller.core.packet_order import check_policy
    from controller.core.saved.restore import check_saved_enforcements
    from controller.core.saved.saved_state import SavedState
    from controller.learning.sampling.sflow_access import parse_listen
    from controller.logs.set_up import set_up
    from controller.model.errors import InputError
    from controller.planning.plan_inputs import fabric_hash
    from controller.port_check import check_port
    from controller.rest.security.http_security import security_from
    from controller.rest.security.origin import names_of, url_of
    from controller.rest.security.peer_trust import trust_from
    from controller.routing import followed
    from controller.southbound.bgp.sessions_file import sessions_of
    from controller.southbound.enforcement.registry import ENFORCEMENTS, NEEDS_FILE
    from controller.southbound.forwarding.destinations import check_rules_exist
    from controller.southbound.openflow.connections.certificates import tls_context
    from controller.startup import Startup
    from controller.store.location import default_url
    from controller.store.store import Store

    conf = _registered()
    _parse(conf, args)
    values = {option.name: getattr(conf, option.name) for option in fields(Settings)}
    settings = settings_from(values, policies=followed())
    set_up(conf, log_format=settings.log_format, log_syslog=settings.log_syslog, open_outputs=_take_over_log())
    fabric, optical = _fabric(settings)
    if fabric is not None:
        check_rules_exist(fabric)
        enforcement = ENFORCEMENTS.named(settings.enforcement)
        try:
            enforcement.check_fabric(fabric, enforcement.options_of(settings))
        except InputError as error:
            raise (error if error.field in enforcement.options else error.with_source(settings.fabric)) from None
    elif optical is None and ENFORCEMENTS.named(settings.enforcement).by_hosts:
        raise InputError(NEEDS_FILE, field="enforcement", value=settings.enforcement)
    check_policy(settings.policy, settings.enforcement)
    bgp = sessions_of(settings.bgp_sessions, settings.srv6_block, fabric)
    openflow_tls = tls_context(conf.ctl_privkey, conf.ctl_cert, conf.ca_certs)
    openflow_port = "ofp_tcp_listen_port" if openflow_tls is None else "ofp_ssl_listen_port"
    check_port(conf.ofp_listen_host, getattr(conf, openflow_port), openflow_port, "OpenFlow")
    check_port(conf.wsapi_host, conf.wsapi_port, "wsapi_port", "HTTP")
    if settings.sflow_listen and (settings.learning != "off" or (fabric is not None and fabric.routers)):
        check_port(*parse_listen(settings.sflow_listen), "sflow_listen", "sFlow", udp=True)
    files = settings.tokens, settings.https_cert, settings.https_key, settings.agents_ca
    security = security_from(conf.wsapi_host, *files)
    is_https = security.tls is not None
    # Other replicas use this URL when they pass requests on.
    listed = f"{settings.http_hosts},{urlsplit(settings.cluster_url).netloc}"
    names = names_of(conf.wsapi_host, socket.gethostname(), listed, tls=is_https)
    own = settings.cluster_url or url_of(conf.wsapi_host, conf.wsapi_port, socket.gethostname(), tls=is_https)
    if settings.cluster_name:
        security = replace(security, peers=trust_from(settings.cluster_ca, own, security.tls))
    url = settings.store or default_url(os.environ)
    replica = _new_replica() if settings.cluster_name else None
    store = Store.open(url, plans_kept=settings.plans_kept, replica=replica, new=settings.new_store)
    cluster, saved = None, SavedState()
    if replica is None:
        saved = store.load()
        check_saved_enforcements(saved, settings.enforcement)
    else:
        member = ClusterSettings(
            settings.cluster_name, settings.lease, ReplicaEntry(replica, own, version("fairspine"))
        )
        from controller.store.election import Election

        election = Election(url, member, fabric="" if fabric is None else fabric_hash(fabric))
        election.check()
        cluster = member, election
    return Startup(
        Configuration(settings, fabric, optical),
        (conf.wsapi_host, conf.wsapi_port),
        names,
        security,
        openflow_tls,
        store,
        saved,
        cluster,
        bgp,
        tuple(args),
    )


def _fabric(settings: Settings) -> tuple[Fabric | None, OpticalFabric | None]:
    """Return the fabric of the file: of packet switches, or an optical one.

    Raises:
        InputError: the file cannot be used, or not with other options.
    """
    from controller.model.errors import InputError
    from controller.model.files.fabric_file import OpticalFabricError, load_fabric

    if not settings.fabric:
        return None, None
    try:
        return load_fabric(settings.fabric), None
    except OpticalFabricError:
        # Its modules are loaded only where they are needed.
        from controller.circuits.fabric.optical_file import load_optical_fabric
        from controller.circuits.planning.split import MOST_PATHS

        optical = load_optical_fabric(settings.fabric)
    if settings.cluster_name:
        reason = "replicas of a cluster do not control optical fabrics"
        raise InputError(reason, field="cluster_name", value=settings.cluster_name)
    if settings.circuit_paths > MOST_PATHS:
        raise InputError(f"must be at most {MOST_PATHS}", field="circuit_paths", value=settings.circuit_paths)
    if settings.circuit_paths > 1 and not optical.forwarding:
        reason = "servers that do not forward have one path for each destination"
        raise InputError(reason, field="circuit_paths", value=settings.circuit_paths)
    return None, optical


def _new_replica() -> str:
    """Return an id; what it is for needs PostgreSQL's client, which other controllers do not load."""
    from controller.store.postgres import new_id

    return new_id()


def _registered() -> Any:
    """Return Ryu's option registry with our options in it and our defaults over Ryu's."""
    from dataclasses import fields

    from oslo_config import cfg
    from ryu.cfg import CONF

    from controller.config import RYU_DEFAULTS, Settings

    kinds = {"str": cfg.StrOpt, "int": cfg.IntOpt, "float": cfg.FloatOpt, "bool": cfg.BoolOpt}
    CONF.register_cli_opts(
        kinds[str(option.type)](option.name.replace("_", "-"), default=option.default, help=option.metadata["help"])
        for option in fields(Settings)
    )
    for name, value in RYU_DEFAULTS.items():
        CONF.set_default(name, value)
    return CONF


def _parse(conf: Any, args: list[str]) -> None:
    """Parse once, ahead of Ryu, so that every complaint can be one line.

    Raises:
        InputError: an unknown option or key, or a value of the wrong type.
        SystemExit: ``--help`` and ``--version``.
    """
    import contextlib
    import io

    from oslo_config import cfg

    from controller.config import unknown_keys
    from controller.model.errors import InputError
    from controller.option_origins import wrong_type

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            conf(args=args, prog=PROG, project="ryu", version=f"{PROG} (fairspine)", default_config_files=[])
            for group, name in _all_options(conf):
                _value(conf, group, name)
    except SystemExit as stop:
        if not stop.code:
            raise
        last = said.getvalue().strip().splitlines()[-1]
        raise wrong_type(last.removeprefix(f"{PROG}: ").removeprefix("error: "), args) from None
    except cfg.Error as error:
        raise InputError(" ".join(str(error).split())) from None
    options = {(group or "DEFAULT", name) for group, name in _all_options(conf)}
    for path in conf.config_file or ():
        sections: dict[str, dict[str, Any]] = {}
        cfg.ConfigParser(path, sections).parse()
        unknown = unknown_keys(sections, options)
        if unknown:
            dashes = "" if "-" not in unknown[0] else ": names in files have underscores, and no dashes"
            raise InputError(f"unknown option{dashes}", field=unknown[0], source=path)


def _take_over_log() -> Callable[[], None]:
    """Return Ryu's function that opens the outputs of the log, which Ryu's ``main`` then no longer calls."""
    from ryu import log

    open_outputs: Callable[[], None] = log.init_log

    def nothing() -> None:
        """Leave the outputs as they are."""

    log.init_log = nothing
    return open_outputs


def _all_options(conf: Any) -> list[tuple[str | None, str]]:
    names: list[tuple[str | None, str]] = [(None, name) for name in conf._opts]
    for group in conf._groups.values():
        names += [(group.name, name) for name in group._opts]
    return names


def _value(conf: Any, group: str | None, name: str) -> Any:
    """Return an option's value; reading it makes oslo.config check its type."""
    return getattr(conf if group is None else conf[group], name)


def _close_on_signals() -> Callable[[], bool]:
    """Turn SIGTERM and SIGINT into KeyboardInterrupt in Ryu's main loop, whichever greenlet happens to be running.

    Raised inside some other greenlet it would be logged there as an error, and the loop would go on.

    Returns:
        a function that returns whether such a signal has come.
    """
    import signal

    import eventlet.hubs
    import greenlet

    main_greenlet = greenlet.getcurrent()
    came: list[int] = []

    def close(signum: int, _frame: Any) -> None:
        came.append(signum)
        hub = eventlet.hubs.get_hub()
        if greenlet.getcurrent() in (main_greenlet, hub.greenlet):
            raise KeyboardInterrupt
        hub.schedule_call_global(0, main_greenlet.throw, KeyboardInterrupt)

    signal.signal(signal.SIGTERM, close)
    signal.signal(signal.SIGINT, close)
    return lambda: bool(came)


def run() -> NoReturn:
    """Run the launcher and exit: entry point for ``python -m controller.launcher``."""
    sys.exit(main())


if __name__ == "__main__":
    run()
