"""Accepted host names, addresses and origins of requests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.rest.problems import ProblemError
from controller.rest.security.origin import Names, authority, names_of

LOOPBACK = names_of("127.0.0.1", "ctl7", "", tls=False)
PROXIED = names_of("127.0.0.1", "", "fabric.example.net, edge.example.net:8443", tls=False)


def status(names: Names, headers: Mapping[str, str], *, method: str = "PUT", local: str = "127.0.0.1") -> int:
    try:
        names.check(method, headers, local)
    except ProblemError as problem:
        assert problem.members["field"].lower() in headers
        return problem.status
    return 200


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8080",
        "localhost",
        "localhost:8080",
        "LocalHost.",
        "[::1]",
        "[::1]:8080",
        "[0:0::1]:1",
        "localhost:9999",
        "ctl7:8080",
    ],
)
def test_loopback_goes_by_its_names_and_addresses_with_any_port(host: str) -> None:
    assert status(LOOPBACK, {"host": host}) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.2",
        "10.0.0.1:8080",
        "",
        "localhost:",
        "localhost:0",
        "localhost:99999",
        "localhost, evil.example",
        "user@localhost",
        "[::1",
        "[::2]",
        "2130706433",
        "127.1",
        "localhost/x",
        "loc\u00e4lhost",
    ],
)
def test_any_other_host_is_misdirected(host: str) -> None:
    assert status(LOOPBACK, {"host": host}) == 421
    assert status(LOOPBACK, {"host": host}, method="GET") == 421


def test_the_address_that_a_connection_came_to_is_a_name_of_the_server() -> None:
    everywhere = names_of("0.0.0.0", "ctl7", "", tls=False)
    assert status(everywhere, {"host": "10.1.2.3:8080"}, local="10.1.2.3") == 200
    assert status(everywhere, {"host": "10.1.2.3"}, local="::ffff:10.1.2.3") == 200
    assert status(everywhere, {"host": "[fd00::7]:8080"}, local="fd00:0::7") == 200
    assert status(everywhere, {"host": "10.1.2.4:8080"}, local="10.1.2.3") == 421
    assert status(everywhere, {"host": "localhost"}, local="10.1.2.3") == 421
    assert status(everywhere, {"host": "ctl7"}, local="10.1.2.3") == 200


def test_an_absolute_target_names_a_host_too() -> None:
    LOOPBACK.check("GET", {"host": "localhost"}, "127.0.0.1", "http://localhost:8080/v1/jobs")
    with pytest.raises(ProblemError) as caught:
        LOOPBACK.check("GET", {"host": "localhost"}, "127.0.0.1", "http://evil.example/v1/jobs")
    assert caught.value.status == 421


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("localhost:8080", "http://localhost:8080", 200),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", 200),
        ("[::1]:8080", "http://[::1]:8080", 200),
        ("localhost", "http://localhost", 200),
        # TLS that ends at a proxy whose name is not listed.
        ("localhost", "https://localhost", 403),
        ("localhost:8080", "http://evil.example", 403),
        ("localhost:8080", "http://localhost:3000", 403),
        ("localhost:8080", "http://localhost", 403),
        ("localhost:8080", "http://127.0.0.1:8080", 403),
        ("localhost:8080", "null", 403),
        ("localhost:8080", "file://", 403),
        ("localhost:8080", "", 403),
        ("localhost:8080", "http://localhost:8080, http://evil.example", 403),
        ("localhost:8080", "http://localhost:8080@evil.example", 403),
    ],
)
def test_only_a_page_of_the_host_that_is_asked_may_ask(host: str, origin: str, expected: int) -> None:
    for method in ("GET", "PUT", "POST", "DELETE", "OPTIONS"):
        assert status(LOOPBACK, {"host": host, "origin": origin}, method=method) == expected


def test_what_the_operator_lists_counts_as_host_and_as_origin() -> None:
    assert status(PROXIED, {"host": "fabric.example.net"}) == 200
    assert status(PROXIED, {"host": "fabric.example.net:8080"}) == 200
    assert status(PROXIED, {"host": "edge.example.net:8443"}) == 200
    assert status(PROXIED, {"host": "edge.example.net"}) == 421
    # A proxy that puts its own idea of us into Host.
    assert status(PROXIED, {"host": "127.0.0.1:8080", "origin": "https://fabric.example.net"}) == 200
    assert status(PROXIED, {"host": "127.0.0.1:8080", "origin": "https://edge.example.net:8443"}) == 200
    assert status(PROXIED, {"host": "127.0.0.1:8080", "origin": "https://fabric.example.net:9999"}) == 403


def test_a_server_of_https_takes_nothing_from_a_page_that_came_in_the_clear() -> None:
    secure = names_of("127.0.0.1", "", "", tls=True)
    assert status(secure, {"host": "localhost:8080", "origin": "https://localhost:8080"}) == 200
    assert status(secure, {"host": "localhost:8080", "origin": "http://localhost:8080"}) == 403


def test_what_browsers_say_of_the_site_counts_where_there_is_no_origin() -> None:
    def told(site: str, method: str = "GET", **more: str) -> int:
        headers = {"host": "localhost", "sec-fetch-site": site} | {f"sec-fetch-{k}": v for k, v in more.items()}
        return status(LOOPBACK, headers, method=method)

    assert told("none") == told("same-origin", "PUT") == 200
    for site in ("cross-site", "same-site", "anything"):
        assert told(site) == told(site, "POST") == told(site, mode="no-cors", dest="image") == 403
        # A link that somebody follows; not a form, and not a frame.
        assert told(site, mode="navigate", dest="document") == 200
        assert told(site, "POST", mode="navigate", dest="document") == 403
        assert told(site, mode="navigate", dest="iframe") == 403


@pytest.mark.parametrize("listed", ["http://a.example", "a b", "a,b/c", "a:0", "a:x", ",".join("a" * 101)])
def test_what_is_no_list_of_names_is_an_error_at_the_start(listed: str) -> None:
    with pytest.raises(InputError) as caught:
        names_of("127.0.0.1", "", listed, tls=False)
    assert caught.value.field == "http_hosts"


@given(st.text(max_size=30))
@example(".")
def test_no_text_makes_the_check_fail_in_another_way(text: str) -> None:
    found = authority(text)
    assert found is None or found.host
    for header in ("host", "origin"):
        assert status(LOOPBACK, {"host": "localhost"} | {header: text}) in (200, 403, 421)
