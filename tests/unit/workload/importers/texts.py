"""Texts for importers: as sources, and with things changed that ought not to be."""

from __future__ import annotations

import io
import re
from typing import Any

from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, Importer, ImportRequest, Source
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job

ODD_WORDS = [
    *("", "-1", "0", "1", "3", "99", "4097", "18446744073709551616", "1" * 400, "1e3", "1e308", "1e999", "nan", "inf"),
    *("0.5", "1_000", "٣", "\x00", "#", "->", "1->1", ":", "None", "\ufffd", "a" * 300),
]

ODD_NUMBERS = ["0", "1", "2", "3", "5", "8", "24", "99", "131072", "131073", "4294967295", "9007199254740992", "1" * 25]


def source(text: str | bytes, name: str = "made-up.txt") -> Source:
    content = text if isinstance(text, bytes) else text.encode()
    return Source(name, lambda: io.BytesIO(content), len(content))


def read_text(read: Importer, text: str | bytes, name: str = "made-up.txt", **request: Any) -> Imported:
    return read([source(text, name)], ImportRequest(**request))


@st.composite
def mutated(draw: st.DrawFn, text: str) -> bytes:
    """The text with up to six lines or words dropped, doubled, swapped or replaced, and perhaps cut short."""
    rows = [line.split(" ") for line in text.split("\n")]
    for _ in range(draw(st.integers(1, 6))):
        i = draw(st.integers(0, len(rows) - 1))
        j = draw(st.integers(0, len(rows[i]) - 1))
        match draw(st.sampled_from(["replace", "drop word", "double word", "drop line", "double line", "swap"])):
            case "replace":
                rows[i][j] = draw(st.sampled_from(ODD_WORDS) | st.text(max_size=8))
            case "drop word":
                rows[i] = rows[i][:j] + rows[i][j + 1 :] or [""]
            case "double word":
                rows[i].insert(j, rows[i][j])
            case "drop line":
                rows = rows[:i] + rows[i + 1 :] or [[""]]
            case "double line":
                rows.insert(i, list(rows[i]))
            case "swap":
                k = draw(st.integers(0, len(rows) - 1))
                rows[i], rows[k] = rows[k], rows[i]
    whole = "\n".join(" ".join(row) for row in rows).encode("utf-8", "surrogatepass")
    return whole[: draw(st.integers(0, len(whole)))] if draw(st.integers(0, 3)) == 0 else whole


@st.composite
def renumbered(draw: st.DrawFn, text: str) -> bytes:
    """The text with up to four of its numbers replaced: most lines stay well-formed."""
    parts = re.split(r"([0-9]+)", text)
    for _ in range(draw(st.integers(1, 4))):
        parts[2 * draw(st.integers(0, len(parts) // 2 - 1)) + 1] = draw(st.sampled_from(ODD_NUMBERS))
    return "".join(parts).encode()


def only_our_error(read: Importer, content: bytes, **request: Any) -> None:
    """It is read as a job that its own document describes, or refused with a sentence that names the source."""
    try:
        imported = read_text(read, content, **request)
    except InputError as error:
        assert error.source
        assert error.reason
        assert "\n" not in str(error)
    else:
        parse_job(document_of(imported.job))
