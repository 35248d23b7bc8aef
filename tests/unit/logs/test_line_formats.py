"""Whatever a message contains, a JSON log is an object a line, and no line of a text log is forged."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import unicodedata
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.logs.line_formats import MOST_SYSLOG_BYTES, JsonLines, SyslogLines, TextLines, escaped
from controller.logs.request_context import begin_request, current_request, working_for

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Lone surrogates, too: names of files that are not UTF-8 have them.
ANY_TEXT = st.text(st.characters()) | st.text(
    st.sampled_from("\n\r\x0b\x0c\x1b\x00\x7f\x85\u2028\u2029\u202e\u200f\ud800\"\\'{}%\t é𝕏")
)
REQUESTS = st.just("") | st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)
HEAD = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warning|error) fairspine\.test: ")


def record(level: str, message: str, *, error: str | None = None, at: float = 0.0) -> logging.LogRecord:
    failure: Any = None
    if error is not None:
        try:
            raise ValueError(error)
        except ValueError:
            failure = sys.exc_info()
    made = logging.LogRecord("fairspine.test", LEVELS[level], "file.py", 1, "%s", (message,), failure)
    made.created = at
    return made


@given(
    st.sampled_from(sorted(LEVELS)),
    ANY_TEXT,
    st.none() | ANY_TEXT,
    REQUESTS,
    st.floats(min_value=0, max_value=4e9),
)
def test_each_line_of_a_json_log_is_an_object_with_all_that_is_known_of_it(
    level: str, message: str, error: str | None, request: str, at: float
) -> None:
    with working_for(request):
        line = JsonLines().format(record(level, message, error=error, at=at))
    assert line.isascii()
    assert len(line.splitlines()) == 1
    document = json.loads(line)
    assert (document["level"], document["logger"], document["message"]) == (level, "fairspine.test", message)
    assert abs(datetime.fromisoformat(document["time"]).timestamp() - at) <= 0.002
    assert datetime.fromisoformat(document["time"]).tzinfo == UTC
    assert document.get("request", "") == request
    assert ("traceback" in document) == (error is not None)
    if error is not None:
        assert document["traceback"].endswith(f"ValueError: {error}" if error else "ValueError")
    assert set(document) <= {"time", "level", "logger", "message", "request", "traceback"}


@given(st.sampled_from(sorted(LEVELS)), ANY_TEXT, st.none() | ANY_TEXT, REQUESTS)
def test_no_message_begins_a_line_of_a_text_log_or_disguises_one(
    level: str, message: str, error: str | None, request: str
) -> None:
    with working_for(request):
        lines = TextLines().format(record(level, message, error=error)).splitlines()
    assert HEAD.match(lines[0])
    assert lines[0].endswith(f" (request {request})" if request else escaped(message))
    # Only a traceback has more lines, and each begins as no record does.
    assert (len(lines) > 1) == (error is not None)
    assert all(line.startswith("  ") for line in lines[1:])
    for line in lines:
        assert all(unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp") for character in line)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f]", line)
        line.encode()


@given(st.sampled_from(sorted(LEVELS)), ANY_TEXT, REQUESTS, st.booleans(), st.text(max_size=300))
def test_a_syslog_message_is_one_of_rfc_5424_whatever_it_says(
    level: str, message: str, request: str, as_json: bool, host: str
) -> None:
    with working_for(request):
        text = SyslogLines(as_json=as_json, pid=7, host=host).format(record(level, message))
    head = re.fullmatch(r"1 (\S+Z) ([\x21-\x7e]{1,255}) fairspine 7 - - (.*)", text, re.DOTALL)
    assert head is not None
    assert len(text.splitlines()) == 1
    if as_json:
        assert json.loads(head[3])["message"] == message
    else:
        assert head[3].startswith("fairspine.test: ")


@given(st.integers(1, 300_000), st.sampled_from("a\né𝕏\ud800"), st.booleans(), st.booleans())
def test_a_syslog_message_fits_a_datagram(length: int, character: str, as_json: bool, failed: bool) -> None:
    long = character * length
    text = SyslogLines(as_json=as_json, pid=7, host="a").format(record("error", long, error=long if failed else None))
    assert len(text.encode()) <= MOST_SYSLOG_BYTES + 300
    if as_json:
        assert long.startswith(json.loads(text.split(" - - ", 1)[1])["message"])


def test_each_thread_has_a_request_of_its_own() -> None:
    seen = []
    with working_for("outer"):
        thread = threading.Thread(target=lambda: seen.append(current_request()))
        thread.start()
        thread.join()
        begin_request("next")
        seen.append(current_request())
    assert seen == ["", "next"]
    assert current_request() == ""
