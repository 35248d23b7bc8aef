"""The certificates of OpenFlow over TLS, from files to one TLS context."""

from __future__ import annotations

import ssl
from pathlib import Path

from controller.model.errors import InputError


def tls_context(key: str | None, cert: str | None, ca: str | None) -> ssl.SSLContext | None:
    """Return a context for TLS 1.2 and up that requires switches' certificates; ``None``: no TLS is wanted.

    Args:
        key: path of the private key, a PEM file. All three paths are given, or none.
        cert: path of the certificate.
        ca: path of the certificates of the authority that signs those of switches.

    Raises:
        InputError: one is not given or cannot be used.
    """
    paths = {"ctl_privkey": key, "ctl_cert": cert, "ca_certs": ca}
    given = {field: path for field, path in paths.items() if path}
    if not given:
        return None
    for field in paths:
        if field not in given:
            raise InputError(f"OpenFlow over TLS needs {', '.join(paths)}; this option is not set", field=field)
    for field, path in given.items():
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise InputError(error.strerror or str(error), field=field, value=path) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(given["ctl_cert"], given["ctl_privkey"], password=_no_password)
    except _EncryptedError:
        raise InputError("is encrypted; the key must have no password", field="ctl_privkey") from None
    except (ssl.SSLError, OSError) as error:
        reason = f"is not a certificate that matches the key: {reason_of(error)}"
        raise InputError(reason, field="ctl_cert", value=given["ctl_cert"]) from None
    try:
        context.load_verify_locations(given["ca_certs"])
    except (ssl.SSLError, OSError) as error:
        reason = f"has no certificate of an authority: {reason_of(error)}"
        raise InputError(reason, field="ca_certs", value=given["ca_certs"]) from None
    if not context.get_ca_certs():
        raise InputError("has no certificate of an authority", field="ca_certs", value=given["ca_certs"])
    return context


def reason_of(error: Exception) -> str:
    """Return OpenSSL's reason for an error."""
    return str(getattr(error, "verify_message", None) or getattr(error, "reason", None) or error)


class _EncryptedError(Exception):
    pass


def _no_password() -> str:
    """Raise an error: OpenSSL would otherwise ask for the password at the terminal."""
    raise _EncryptedError
