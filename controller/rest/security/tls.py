"""TLS 1.2 and later for the HTTP interface, with a certificate that can be renewed while the controller runs."""

from __future__ import annotations

import logging
import os
import ssl
from abc import ABC, abstractmethod
from typing import Any

from controller.model.errors import InputError

LOG = logging.getLogger(__name__)


class RereadContext(ABC):
    """A TLS context that is made of PEM files and made again when they change."""

    def __init__(self, *paths: str) -> None:
        """Read the files.

        Raises:
            InputError: the files cannot be used.
        """
        self._paths = paths
        self._seen = self._look()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        self._refresh()
        return self._context

    @abstractmethod
    def _load(self) -> ssl.SSLContext:
        """Make the context of the files as they are now."""

    def _refresh(self) -> None:
        now = self._look()
        if now == self._seen:
            return
        self._seen = now
        try:
            self._context = self._load()
        except InputError as error:
            LOG.error("the TLS certificate cannot be read; the previous one remains in use: %s", error)
        else:
            LOG.info("read a new TLS certificate from %s", self._paths[0])

    def _look(self) -> tuple[object, ...]:
        seen: list[object] = []
        for path in self._paths:
            try:
                status = os.stat(path)
            except OSError:
                seen.append(None)
            else:
                seen += [status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size]
        return tuple(seen)


class Tls(RereadContext):
    """A certificate with its chain, and its key; and the authorities of clients that have certificates, too."""

    def __init__(self, cert: str, key: str, agents_ca: str = "") -> None:
        """Read the files.

        Args:
            cert: path of the certificate.
            key: path of its key.
            agents_ca: path of the certificates of authorities; empty: clients are not asked for certificates.

        Raises:
            InputError: the files cannot be used.
        """
        self.cert, self._key, self._agents_ca = cert, key, agents_ca
        super().__init__(cert, key, *([agents_ca] if agents_ca else []))

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        check_readable(self.cert, "https_cert")
        check_readable(self._key, "https_key")
        try:
            context.load_cert_chain(self.cert, self._key, password=_no_password)
        except _EncryptedError:
            raise InputError("is encrypted; it must have no password", field="https_key") from None
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or str(error)
            raise InputError(
                f"does not hold a certificate that matches the key: {reason}", field="https_cert", value=self.cert
            ) from None
        if self._agents_ca:
            check_readable(self._agents_ca, "agents_ca")
            try:
                context.load_verify_locations(self._agents_ca)
            except ssl.SSLError:
                reason = "has no certificate of an authority"
                raise InputError(reason, field="agents_ca", value=self._agents_ca) from None
            # Others have tokens. A certificate of another authority ends the handshake.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


def certified_names(connection: ssl.SSLSocket) -> tuple[str, ...]:
    """Return the DNS names in the verified certificate of a client; none: it has no certificate."""
    certificate = connection.getpeercert() or {}
    # Each is a pair of the kind of a name and the name.
    names: Any = certificate.get("subjectAltName", ())
    return tuple(name for kind, name in names if kind == "DNS")


def check_readable(path: str, field: str) -> None:
    """Check that a file can be opened.

    Raises:
        InputError: it cannot; ``field`` is the option that names it.
    """
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InputError(error.strerror or str(error), field=field, value=path) from None


class _EncryptedError(Exception):
    pass


def _no_password() -> str:
    """Raise an error: OpenSSL would otherwise ask for the password at the terminal."""
    raise _EncryptedError
