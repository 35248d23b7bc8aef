"""Format log records as lines: text for people, JSON for programs, and messages of syslog (RFC 5424).

Clients, switches and hosts choose parts of messages (paths, names, texts of errors). So no character of a message can
begin a line, move a terminal's cursor or change the direction of text: it is written as an escape sequence.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import time
from collections.abc import Callable

from controller.logs.request_context import current_request

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters, line breaks among them
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # line separators, directions of text, invisible characters
    "\ud800-\udfff]"  # surrogates, which no encoding can write
)
_NOT_OF_HEADER = re.compile(r"[^\x21-\x7e]")

MOST_SYSLOG_BYTES = 60_000
"""Length of a syslog message. A datagram of UDP has room for 65,507 bytes."""

_MOST_CHARACTERS = 2_000
"""Of a message, and of a traceback, in a JSON object that would be longer: twelve bytes for a character at most."""


def escaped(text: str) -> str:
    """Return a text with characters that could forge lines or disguise text as escape sequences."""
    return _UNSAFE.sub(lambda unsafe: ascii(unsafe.group())[1:-1], text)


def time_of(record: logging.LogRecord) -> str:
    """Return the time of a record in UTC with milliseconds (RFC 3339)."""
    seconds, milliseconds = divmod(int(record.created * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z"


def _traceback(record: logging.LogRecord) -> str:
    formatter = logging.Formatter()
    error = formatter.formatException(record.exc_info) if record.exc_info else (record.exc_text or "")
    stack = formatter.formatStack(record.stack_info) if record.stack_info else ""
    return "\n".join(part for part in (error, stack) if part)


def _text(record: logging.LogRecord) -> str:
    """Return the message, and the id of the request if there is one, on one line."""
    request = current_request()
    return escaped(record.getMessage()) + (f" (request {escaped(request)})" if request else "")


class TextLines(logging.Formatter):
    """``TIME level logger: message (request ID)``; tracebacks follow in indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and those of its traceback."""
        head = f"{time_of(record)} {record.levelname.lower()} {record.name}: {_text(record)}"
        return "\n".join([head, *(f"  {escaped(line)}" for line in _traceback(record).split("\n") if line)])


class JsonLines(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, ``request``, ``traceback``. It is ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object of a record."""
        return self._document(record, None)

    def format_short(self, record: logging.LogRecord) -> str:
        """Return the object of a record with a message and a traceback of bounded length."""
        return self._document(record, _MOST_CHARACTERS)

    def _document(self, record: logging.LogRecord, most: int | None) -> str:
        traceback, request = _traceback(record), current_request()
        document = {
            "time": time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:most],
        }
        if request:
            document["request"] = request
        if traceback:
            # The end of a traceback says what has happened.
            document["traceback"] = traceback if most is None else traceback[-most:]
        return json.dumps(document)


class SyslogLines(logging.Formatter):
    """A message of RFC 5424 without the priority, which the handler writes in front: one line, as text or as JSON."""

    def __init__(self, *, as_json: bool, pid: int, host: str = "") -> None:
        """Write ``pid`` and ``host`` (this machine's name if empty) into each message."""
        super().__init__()
        self._json = JsonLines() if as_json else None
        name = _NOT_OF_HEADER.sub("?", host or socket.gethostname())[:255] or "-"
        self._origin = f"{name} fairspine {pid} - -"

    def format(self, record: logging.LogRecord) -> str:
        """Return the message of a record, cut where it is too long for a datagram."""
        head = f"1 {time_of(record)} {self._origin} "
        if self._json is not None:
            text = self._json.format(record)
            return head + (text if len(text) <= MOST_SYSLOG_BYTES else self._json.format_short(record))
        traceback = _traceback(record)
        text = f"{record.name}: {_text(record)}" + (f" {escaped(traceback)}" if traceback else "")
        return head + text.encode()[:MOST_SYSLOG_BYTES].decode(errors="ignore")


FORMATS: dict[str, Callable[[], logging.Formatter]] = {"text": TextLines, "json": JsonLines}
"""The values of the option ``log_format``."""
