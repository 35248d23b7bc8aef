"""The dashboard's files as values: read once, with their types, entity tags and compressed bodies. Knows no server."""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types by ending; a file of another kind is not ours."""

FOLDER = "/web/"
"""Where every file but the page itself is served; the page is at ``/``."""


@dataclass(frozen=True)
class Asset:
    """A file. ``etag`` is strong, of ``body``; ``zipped`` (gzip, RFC 1952) has one of its own."""

    body: bytes
    zipped: bytes
    media_type: str
    etag: str
    zipped_etag: str


def asset(name: str, body: bytes) -> Asset:
    """Return a file by its name and content.

    Raises:
        KeyError: the file is of a kind that is not served.
    """
    media_type = TYPES[name[name.rindex(".") :]]
    tag = hashlib.blake2b(body, digest_size=12).hexdigest()
    # Without a time in it, the same file is the same answer on every controller.
    return Asset(body, gzip.compress(body, mtime=0), media_type, f'"{tag}"', f'"{tag}-gzip"')


@functools.cache
def assets() -> Mapping[str, Asset]:
    """Every file of the dashboard by its path on the server."""
    folder: Traversable = resources.files(__package__) / "static"
    served = {FOLDER + file.name: asset(file.name, file.read_bytes()) for file in folder.iterdir() if file.is_file()}
    served["/"] = served.pop(FOLDER + "index.html")
    return served
