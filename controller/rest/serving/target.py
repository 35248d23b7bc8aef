"""Normalize request targets (RFC 9112, section 3.2)."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

_AUTHORITY = re.compile(r"https?://[^/?]*", re.IGNORECASE)
_SUB_DELIMITERS = "!$&'()*+,;=:@"


def split_target(target: str) -> tuple[str, str]:
    """Return path and query of a request target.

    Args:
        target: origin form (``/v1/jobs?x=1``) or absolute form (``http://host/v1/jobs``), latin-1 decoded.

    Returns:
        The path with each segment percent-encoded in the one normal form, so that equal paths are equal strings and an
        encoded slash stays inside its segment; and the query with everything but ASCII percent-encoded.
    """
    local = _AUTHORITY.sub("", target, count=1) if _AUTHORITY.match(target) else target
    path, _, query = local.partition("?")
    segments = (quote(unquote_to_bytes(segment.encode("latin-1")), safe=_SUB_DELIMITERS) for segment in path.split("/"))
    return "/".join(segments) or "/", quote(query.encode("latin-1"), safe="%/?" + _SUB_DELIMITERS)
