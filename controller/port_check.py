"""The check that a port is free, before something listens on it. Modules are imported late: see the launcher."""

from __future__ import annotations

from controller.model.packets.port_numbers import MAX_PORT


def check_port(host: str, port: int, field: str, what: str, *, udp: bool = False) -> None:
    """Check that the port is free: Ryu and eventlet bind with SO_REUSEPORT, so two controllers could share it.

    Raises:
        InputError: it is not; ``field`` is the option that names the port, ``what`` the protocol.
    """
    import errno
    import socket

    from controller.model.errors import InputError

    if not 0 < port <= MAX_PORT:
        raise InputError("a port must be 1 to 65535", field=field, value=port)
    try:
        wanted = socket.SOCK_DGRAM if udp else socket.SOCK_STREAM
        family, kind, proto, _, address = socket.getaddrinfo(host or None, port, type=wanted)[0]
        with socket.socket(family, kind, proto) as probe:
            if not udp:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            if not udp:
                # Binding beside a listener that allows reuse can succeed; listening cannot.
                probe.listen(1)
    except socket.gaierror as error:
        raise InputError(
            f"{what} cannot listen there: {error.strerror}", field=field.replace("port", "host"), value=host
        ) from None
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = "is in use by another program" if taken else f"cannot listen: {error.strerror}"
        raise InputError(f"{what} port {reason}", field=field, value=f"{host}:{port}") from None
