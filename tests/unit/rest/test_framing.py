"""Framing of HTTP requests: properties of the body reader, and its errors."""

from __future__ import annotations

import http.client
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.rest.problems import ProblemError
from controller.rest.serving.framing import (
    MOST_FIELDS,
    PIECE_BYTES,
    Framing,
    HeadLines,
    body_pieces,
    check_request_line,
    framing,
)

HOST = ("Host", "c")
NEXT = b"GET / HTTP/1.1\r\n"


def fields(headers: list[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    return found


def read(stream: io.BytesIO, how: Framing, at_most: int = 1 << 20) -> bytes:
    return b"".join(body_pieces(stream, how, at_most=at_most))


def chunked(pieces: list[bytes], *, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    coded = b"".join(b"%x%s\r\n%s\r\n" % (len(piece), extension, piece) for piece in pieces if piece)
    return coded + b"0\r\n" + trailer + b"\r\n"


@given(st.lists(st.binary(max_size=300)), st.sampled_from([b"", b";a=b"]), st.sampled_from([b"", b"X: y\r\n"]))
def test_a_chunked_body_is_what_its_chunks_carry_and_the_next_request_follows(
    pieces: list[bytes], extension: bytes, trailer: bytes
) -> None:
    stream = io.BytesIO(chunked(pieces, extension=extension, trailer=trailer) + NEXT)
    assert read(stream, Framing(chunked=True)) == b"".join(pieces)
    assert stream.read() == NEXT


@given(st.binary(max_size=3 * PIECE_BYTES))
def test_a_body_of_known_length_is_read_to_its_last_byte_and_no_further(body: bytes) -> None:
    stream = io.BytesIO(body + NEXT)
    assert read(stream, Framing(length=len(body))) == body
    assert stream.read() == NEXT


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1), st.data())
def test_a_body_that_breaks_off_anywhere_is_refused(pieces: list[bytes], data: st.DataObject) -> None:
    body = b"".join(pieces)
    for whole, how in ((chunked(pieces), Framing(chunked=True)), (body, Framing(length=len(body)))):
        cut = data.draw(st.integers(0, len(whole) - 1))
        with pytest.raises(ProblemError) as caught:
            read(io.BytesIO(whole[:cut]), how)
        assert caught.value.status == 400


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1))
def test_a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    for whole, how in ((chunked(pieces), Framing(chunked=True)), (body, Framing(length=len(body)))):
        assert read(io.BytesIO(whole), how, len(body)) == body
        with pytest.raises(ProblemError) as caught:
            read(io.BytesIO(whole), how, len(body) - 1)
        assert caught.value.status == 413


def test_nothing_is_read_of_a_body_that_says_it_is_too_large() -> None:
    stream = io.BytesIO(b"x" * 100)
    with pytest.raises(ProblemError):
        read(stream, Framing(length=100), 99)
    assert stream.tell() == 0


@given(st.binary(max_size=200))
def test_chunked_garbage_is_read_or_refused_without_other_exceptions(garbage: bytes) -> None:
    try:
        body = read(io.BytesIO(garbage), Framing(chunked=True))
    except ProblemError as problem:
        assert problem.status in (400, 413)
    else:
        assert len(body) < len(garbage)


@pytest.mark.parametrize(
    "coded",
    [
        b"-1\r\n\r\n",
        b"+1\r\na\r\n0\r\n\r\n",
        b"0x1\r\na\r\n0\r\n\r\n",
        b"1_0\r\n" + b"a" * 16 + b"\r\n0\r\n\r\n",
        b"1\r\nab\r\n0\r\n\r\n",
        b"\r\n",
        b"1" * 300,
        b"0\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
        b"0\r\n" + b"a" * 9000 + b"\r\n\r\n",
    ],
)
def test_chunks_that_other_readers_may_see_otherwise_are_refused(coded: bytes) -> None:
    with pytest.raises(ProblemError) as caught:
        read(io.BytesIO(coded), Framing(chunked=True))
    assert caught.value.status == 400


def test_a_body_that_is_needed_and_has_no_length_is_asked_for() -> None:
    with pytest.raises(ProblemError) as caught:
        read(io.BytesIO(b""), Framing())
    assert caught.value.status == 411


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([HOST], Framing()),
        ([HOST, ("content-length", "12")], Framing(length=12)),
        ([HOST, ("Transfer-Encoding", "Chunked")], Framing(chunked=True)),
        ([HOST, ("Content-Length", "1"), ("Expect", "100-Continue")], Framing(length=1, awaits_continue=True)),
    ],
)
def test_a_sound_head_says_how_the_body_is_delimited(headers: list[tuple[str, str]], expected: Framing) -> None:
    assert framing("HTTP/1.1", fields(headers)) == expected


def test_an_http_1_0_client_needs_no_host_and_never_gets_100_continue() -> None:
    headers = fields([("Content-Length", "1"), ("Expect", "100-continue")])
    assert framing("HTTP/1.0", headers) == Framing(length=1)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, []),
        (400, [HOST, HOST]),
        (400, [HOST, ("Content-Length", "-1")]),
        (400, [HOST, ("Content-Length", "+1")]),
        (400, [HOST, ("Content-Length", "1_0")]),
        (400, [HOST, ("Content-Length", "1, 1")]),
        (400, [HOST, ("Content-Length", "")]),
        (400, [HOST, ("Content-Length", "1"), ("content-length", "2")]),
        (400, [HOST, ("Content-Length", "1"), ("Transfer-Encoding", "chunked")]),
        (413, [HOST, ("Content-Length", "9" * 30)]),
        (417, [HOST, ("Expect", "200-ok")]),
        (501, [HOST, ("Transfer-Encoding", "gzip, chunked")]),
        (501, [HOST, ("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "chunked")]),
    ],
)
def test_an_ambiguous_head_is_refused(status: int, headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ProblemError) as caught:
        framing("HTTP/1.1", fields(headers))
    assert caught.value.status == status


def test_http_1_0_knows_no_chunks() -> None:
    with pytest.raises(ProblemError) as caught:
        framing("HTTP/1.0", fields([("Transfer-Encoding", "chunked")]))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "line",
    [b"P\x1bT / HTTP/1.1\r\n", b"GET / HTTP/1.1\n", b"GET /\r\n", b"GET / HTTP/1.1\rX: y\r\n", b" GET / HTTP/1.1\r\n"],
)
def test_a_request_line_is_a_method_a_target_and_a_version(line: bytes) -> None:
    check_request_line(b"GET / HTTP/1.1\r\n")
    with pytest.raises(ProblemError):
        check_request_line(line)


@pytest.mark.parametrize(
    "line",
    [
        b"A : b\r\n",
        b" folded\r\n",
        b"\tfolded\r\n",
        b"A: b\rC: d\r\n",
        b"A: \x00\r\n",
        b"A: b\n",
        b"\n",
        b"",
        b"no colon\r\n",
        b": b\r\n",
    ],
)
def test_a_header_line_is_a_name_and_a_value(line: bytes) -> None:
    sound = b"Host: c\r\nX: \t\xe9\r\n\r\n"
    lines = HeadLines(io.BytesIO(sound))
    assert lines.readline() == b"\r\n"
    assert lines.fields.items() == [("Host", "c"), ("X", "\xe9")]
    with pytest.raises(ProblemError):
        HeadLines(io.BytesIO(line)).readline()


NAMES = st.sampled_from(["Host", "host", "Connection", "connection", "Expect", "Accept", "X-A"])
VALUES = st.text(st.sampled_from(" \t:;,=\xe9az09-"), max_size=8)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8))
def test_fields_are_those_that_the_standard_library_reads_and_its_parser_gets_what_it_acts_on(
    fields: list[tuple[str, str]],
) -> None:
    head = "".join(f"{name}:{value}\r\n" for name, value in fields).encode("iso-8859-1") + b"\r\n"
    message = http.client.parse_headers(io.BytesIO(head))
    lines = HeadLines(io.BytesIO(head))
    acted = http.client.parse_headers(lines)  # type: ignore[arg-type]
    assert lines.fields.items() == message.items()
    for name, _ in fields:
        assert lines.fields.get(name.swapcase()) == message.get(name)
    for name in ("Connection", "Expect"):
        assert acted.get_all(name) == message.get_all(name)
    assert lines.fields.get("Missing", "none") == "none"
    assert len(lines.fields) == len(fields)


@pytest.mark.parametrize("count", [MOST_FIELDS, MOST_FIELDS + 1])
def test_a_head_has_as_many_fields_as_the_standard_library_takes(count: int) -> None:
    head = b"A: b\r\n" * count + b"\r\n"
    for read in (io.BytesIO(head), HeadLines(io.BytesIO(head))):
        if count <= MOST_FIELDS:
            http.client.parse_headers(read)  # type: ignore[arg-type]
        else:
            with pytest.raises(http.client.HTTPException):
                http.client.parse_headers(read)  # type: ignore[arg-type]
