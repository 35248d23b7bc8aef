"""Requests that violate HTTP, and the statuses of answers in a stream of bytes."""

from __future__ import annotations

import re


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"(?:^|\n|\}|\])HTTP/1\.[01] (\d{3}) ", received)]


NEXT = b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n"


MALFORMED = [
    (b"hello\r\n\r\n", 400),
    (b"GET /healthz\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    (b"GET /healthz HTTP/x\r\nHost: c\r\n\r\n", 400),
    (b"GET /healthz HTTP/2.0\r\nHost: c\r\n\r\n", 505),
    (b"G\x00T /healthz HTTP/1.1\r\nHost: c\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00 / HTTP/1.1\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nno colon\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nA: b\r\n folded\r\n\r\n", 400),
    # A CR alone is no end of a line: what follows it must not count as a header of its own.
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nA: b\rContent-Length: 5\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nA: b\rHost: c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\rHost: c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\rHost: c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nA: b\x00c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nA: b\nContent-Length: 5\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\nHost: c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\n\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nA: b\r\n\tfolded\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\n folded: b\r\nHost: c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nContent-Length : 5\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost : c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nHost: c\r\n\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nHost: d\r\n\r\n", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nContent-Length: 2, 2\r\n\r\n{}", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\n0\r\n\r\n", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n2;a\rb\r\n{}\r\n0\r\n\r\n", 400),
    (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: c\r\n\r\n", 414),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\nA: " + b"b" * 9000 + b"\r\n\r\n", 431),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
    (b"GET /healthz HTTP/1.1\r\nHost: c\r\n" + (b"A: " + b"b" * 8000 + b"\r\n") * 9 + b"\r\n", 431),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nContent-Length: -1\r\n\r\n", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nContent-Length: 1_0\r\n\r\n{}", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 100_000, 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    (b"PUT /v1/jobs/x HTTP/1.1\r\nHost: c\r\nExpect: tea\r\nContent-Length: 2\r\n\r\n{}", 417),
]
"""Requests that break RFC 9112, with the status of the answer."""
