"""Static files over HTTP, without a server."""

from __future__ import annotations

import gzip

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rest.pages import ENFORCEMENTS_MODULE, POLICY
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.web.assets import assets
from tests.unit.rest.asking import Reply, send
from tests.unit.rest.fake import FakeBackend

PATH, FILE = next((path, asset) for path, asset in assets().items() if path.endswith(".js"))


def ask(method: str = "GET", **headers: str) -> Reply:
    return send(FakeBackend(), method, PATH, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize(
    ("accepted", "zipped"),
    [
        ("", False),
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("br;q=1.0, GZIP;q=0.8", True),
        ("*", True),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzipped", False),
        ("*;q=0, gzip", True),
        ("*, gzip;q=0", False),
    ],
)
def test_a_file_is_compressed_for_who_takes_that_and_says_so(accepted: str, zipped: bool) -> None:
    response = ask(accept_encoding=accepted)
    headers = response.headers
    assert (response.status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
    assert headers.get("Content-Encoding") == ("gzip" if zipped else None)
    assert headers["Vary"] == "Accept-Encoding"
    assert headers["ETag"] == (FILE.zipped_etag if zipped else FILE.etag)
    body = gzip.decompress(response.body) if zipped else response.body
    assert body == FILE.body
    assert int(headers["Content-Length"]) == len(response.body)


@pytest.mark.parametrize("known", [FILE.etag, FILE.zipped_etag, f"W/{FILE.etag}", f'"other", {FILE.etag}', "*"])
def test_who_has_the_file_already_gets_304_and_no_body(known: str) -> None:
    response = ask(if_none_match=known)
    headers = response.headers
    assert (response.status, response.body) == (304, b"")
    assert headers["ETag"] == FILE.etag
    # RFC 9110, section 8.6: a length here would be that of the file.
    assert not {"Content-Length", "Content-Type"} & set(headers)


@given(st.text("abcdef0123456789-", min_size=1, max_size=30).filter(lambda tag: f'"{tag}"' not in (FILE.etag,)))
def test_who_has_another_one_gets_the_file(tag: str) -> None:
    assert ask(if_none_match=f'"{tag}"').status == 200


def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    headers = ask().headers
    assert headers["Content-Security-Policy"] == POLICY
    for word in (
        "default-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
    ):
        assert word in POLICY
    assert "unsafe" not in POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-cache"


def test_a_file_supports_only_reading() -> None:
    assert ask("HEAD").status == 200
    assert ask("OPTIONS").headers["Allow"] == "GET, HEAD, OPTIONS"
    for method in ("PUT", "POST", "DELETE", "PATCH"):
        response = ask(method)
        assert (response.status, response.media_type) == (405, "application/problem+json")
        assert response.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_the_page_has_the_enforcements_of_the_controller() -> None:
    body = send(FakeBackend(), "GET", ENFORCEMENTS_MODULE, headers={}).body.decode()
    begin, listed = body.removesuffix(";\n").split(" = ")
    assert begin == "export const ENFORCEMENTS"
    assert orjson.loads(listed) == {name: each.text for name, each in ENFORCEMENTS.items()}
