"""Static files over HTTP: methods, entity tags, compression, and what a browser may do with them. Pure.

Open to everybody: there is nothing of the network in them, and a page must be there before it can ask for a token.
"""

from __future__ import annotations

from http import HTTPStatus

from controller.rest.messages import Request, Response
from controller.rest.problems import ProblemError
from controller.web.assets import Asset

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
"""Content-Security-Policy: our own files only, no inline code, no frames around us."""

_ALLOW = (("Allow", "GET, HEAD, OPTIONS"),)
_SAFETY = (
    ("Content-Security-Policy", POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Vary", "Accept-Encoding"),
)


def answer_page(asset: Asset, request: Request) -> Response:
    """The response to a request for a static file; whatever is wrong with it becomes a problem document.

    Browsers are told to ask each time (``Cache-Control: no-cache``) and get a 304 while they have the present file: so
    a page never mixes files of two versions of the controller.
    """
    if request.method == "OPTIONS":
        return Response(HTTPStatus.NO_CONTENT, headers=_ALLOW)
    # The server sends the head alone where the method is HEAD.
    if request.method not in ("GET", "HEAD"):
        problem = ProblemError(HTTPStatus.METHOD_NOT_ALLOWED, "this is a file, which can be read", headers=_ALLOW)
        return problem.response(request.path)
    zipped = _takes_gzip(request.headers.get("accept-encoding", ""))
    headers = (("ETag", asset.zipped_etag if zipped else asset.etag), *_SAFETY)
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if known & {"*", asset.etag, asset.zipped_etag}:
        return Response(HTTPStatus.NOT_MODIFIED, headers=headers)
    if zipped:
        return Response(HTTPStatus.OK, asset.zipped, asset.media_type, (*headers, ("Content-Encoding", "gzip")))
    return Response(HTTPStatus.OK, asset.body, asset.media_type, headers)


def _takes_gzip(accepted: str) -> bool:
    """Whether a client takes gzip (RFC 9110, section 12.5.3); a weight of 0 says no."""
    for part in accepted.lower().split(","):
        coding, *parameters = (piece.strip() for piece in part.split(";"))
        if coding in ("gzip", "x-gzip", "*"):
            return not any(
                parameter.replace(" ", "") in ("q=0", "q=0.0", "q=0.00", "q=0.000") for parameter in parameters
            )
    return False
