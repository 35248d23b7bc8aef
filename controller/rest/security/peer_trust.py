"""The certificates that replicas of a cluster accept from each other when they pass requests on over HTTPS."""

from __future__ import annotations

import logging
import ssl
from urllib.parse import urlsplit

from controller.model.errors import InputError
from controller.rest.security.tls import RereadContext, Tls, check_readable

LOG = logging.getLogger(__name__)

HAS_EXPIRED, HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH = 10, 62, 64
"""OpenSSL's codes (x509_vfy.h)."""


class PeerTrust(RereadContext):
    """The authorities that sign the certificates of the other replicas."""

    def __init__(self, ca: str, *, encrypted: bool = False) -> None:
        """Read the file of the authorities' certificates, in PEM; empty: those of the system.

        Args:
            ca: path of that file.
            encrypted: clients reach this replica by HTTPS, so that their tokens are passed on by HTTPS only.

        Raises:
            InputError: the file cannot be used.
        """
        self.ca, self.encrypted = ca, encrypted
        super().__init__(*([ca] if ca else []))

    def _load(self) -> ssl.SSLContext:
        if not self.ca:
            return ssl.create_default_context()
        check_readable(self.ca, "cluster_ca")
        try:
            return ssl.create_default_context(cafile=self.ca)
        except ssl.SSLError:
            raise InputError("has no certificate of an authority", field="cluster_ca", value=self.ca) from None


def trust_from(ca: str, url: str, tls: Tls | None) -> PeerTrust:
    """Return the trust of a replica, which the others share: they must accept the certificate of this one, too.

    Args:
        ca: path of the authorities' certificates; empty: those of the system.
        url: the URL of this replica, which the others use.
        tls: what it answers with; ``None``: HTTP, or a proxy before it answers in HTTPS.

    Raises:
        InputError: the file cannot be used, or the others would not accept this replica.
    """
    parts = urlsplit(url)
    if parts.scheme != "https":
        if tls is not None:
            raise InputError("must begin with https, because https_cert is set", field="cluster_url", value=url)
        if ca:
            raise InputError("requires HTTPS: set https_cert and https_key", field="cluster_ca", value=ca)
    trust = PeerTrust(ca, encrypted=parts.scheme == "https")
    if tls is not None:
        _check_accepted(trust, tls, url, parts.hostname or "")
    return trust


def _check_accepted(trust: PeerTrust, tls: Tls, url: str, host: str) -> None:
    try:
        _shake_hands(trust.context(), tls.context(), host)
    except ssl.SSLCertVerificationError as error:
        reason = error.verify_message
        if error.verify_code in (HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH):
            shown = f"https_cert ({tls.cert}) is for another name: {reason}"
            raise InputError(shown, field="cluster_url", value=url) from None
        if error.verify_code == HAS_EXPIRED:
            # Without a new start it would have gone on, and a new certificate needs none.
            LOG.error("https_cert: %s: other replicas do not accept it: %s", tls.cert, reason)
        elif trust.ca:
            shown = f"did not sign https_cert ({tls.cert}), so other replicas would not accept it: {reason}"
            raise InputError(shown, field="cluster_ca", value=trust.ca) from None
        else:
            shown = f"other replicas would not accept it: {reason}; cluster_ca can name its authority"
            raise InputError(shown, field="https_cert", value=tls.cert) from None


def _shake_hands(asking: ssl.SSLContext, answering: ssl.SSLContext, host: str) -> None:
    """Have a client verify a server, in memory.

    Raises:
        ssl.SSLCertVerificationError: the client does not accept the certificate.
    """
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, there, server_hostname=host)
    server = answering.wrap_bio(there, back, server_side=True)
    # The client has verified the certificate when it is done; the server need not finish.
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
