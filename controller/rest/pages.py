"""Serve the dashboard's files: methods, entity tags, compression, and what a browser may do with them.

Served without a token: they hold nothing of the network, and the page must load before it can ask for a token.
Falcon's own static routes neither compress nor set these headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import falcon
import orjson

from controller.rest.representation import takes_gzip
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.web.assets import FOLDER, Asset, asset, assets

POLICY = "; ".join(
    (
        "default-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "object-src 'none'",
        # Nothing may turn text into markup, so what comes from the network cannot become a script.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Content-Security-Policy: only files of this server, no inline code, no embedding in frames."""

ENFORCEMENTS_MODULE = FOLDER + "enforcements.js"

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}


def pages() -> Mapping[str, Asset]:
    """Return the dashboard's files by their paths, with the enforcements that this controller has."""
    texts = {name: enforcement.text for name, enforcement in ENFORCEMENTS.items()}
    module = b"export const ENFORCEMENTS = " + orjson.dumps(texts, option=orjson.OPT_INDENT_2) + b";\n"
    return {**assets(), ENFORCEMENTS_MODULE: asset(ENFORCEMENTS_MODULE, module)}


class Methods:
    """Responders for Falcon, one a method, and OPTIONS."""

    @property
    def methods(self) -> list[str]:
        """The methods that there are."""
        return sorted(name.removeprefix("on_").upper() for name in dir(self) if name.startswith("on_"))

    def on_options(self, _request: falcon.Request, response: falcon.Response, **_variables: str) -> None:
        """Answer with the methods."""
        response.status = HTTPStatus.NO_CONTENT
        response.set_header("Allow", ", ".join(self.methods))


class Page(Methods):
    """A static file. Browsers revalidate it each time, so a page never mixes files of two versions."""

    def __init__(self, asset: Asset) -> None:
        """Serve one file."""
        self._asset = asset

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        """Answer with the file, compressed if the client accepts it, or 304 if the client has it."""
        asset, zipped = self._asset, takes_gzip(request.get_header("Accept-Encoding", default=""))
        response.set_headers(_HEADERS)
        response.etag = asset.zipped_etag if zipped else asset.etag
        ours = {"*", asset.etag.strip('"'), asset.zipped_etag.strip('"')}
        if any(str(tag) in ours for tag in request.if_none_match or ()):
            response.status = HTTPStatus.NOT_MODIFIED
            return
        response.content_type, response.data = asset.media_type, asset.zipped if zipped else asset.body
        if zipped:
            response.set_header("Content-Encoding", "gzip")

    on_head = on_get
