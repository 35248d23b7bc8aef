"""Write the manual page of ``fairspine`` from the help texts of its commands.

    .venv/bin/python -m scripts.man_page > docs/man/fairspine.1

The format is that of man(7).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

from controller.cli.main import described_program
from controller.cli.shared.exit_codes import EVERY, leaves

FILES = (
    ("~/.config/fairspine/config.toml", "The controllers that commands connect to, and their tokens."),
    ("~/.local/state/fairspine/fairspine.db", "The default store of the controller."),
)
_EXIT_CODES = [
    *((str(code), f"{meaning[0].upper()}{meaning[1:]}.") for code, meaning in EVERY.items()),
    ("3 and above", "As the command says."),
]


def manual_page() -> str:
    """Return the page."""
    program = described_program()
    lines = [f'.TH FAIRSPINE 1 "" "fairspine {_escaped(version("fairspine"))}" "User Commands"']
    lines += [".SH NAME", _text(f"fairspine - {_paragraphs(program.help)[0].rstrip('.').lower()}")]
    lines += [".SH SYNOPSIS", ".B fairspine", ".I command", "[options]", ".SH OPTIONS", *_parameters(program, [])]
    lines += [".SH COMMANDS"]
    for words, command in leaves(program):
        lines += [".SS " + _text(_usage(command, words)), *_body(command, words)]
    lines += [".SH EXIT STATUS", *_listed(_EXIT_CODES), ".SH FILES", *_listed(FILES)]
    return "\n".join(lines) + "\n"


def _usage(command: Any, words: Sequence[str]) -> str:
    return " ".join([*words, *command.collect_usage_pieces(_context(command, words))])


def _body(command: Any, words: Sequence[str]) -> Iterator[str]:
    for paragraph in _paragraphs(command.help):
        yield from (".PP", _text(paragraph))
    yield from _parameters(command, words)
    for paragraph in _paragraphs(command.epilog):
        yield from (".PP", _text(paragraph))


def _parameters(command: Any, words: Sequence[str]) -> list[str]:
    context = _context(command, words)
    records = [parameter.get_help_record(context) for parameter in command.params]
    return _listed([record for record in records if record is not None])


def _context(command: Any, words: Sequence[str]) -> Any:
    # Resilient: a command that is only described needs no arguments.
    return command.make_context(" ".join(["fairspine", *words]), [], resilient_parsing=True)


def _listed(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [line for term, text in rows for line in (".TP", f"\\fB{_escaped(term)}\\fR", _text(text))]


def _paragraphs(text: str | None) -> list[str]:
    """Return the paragraphs of a help text, a line each."""
    return [" ".join(part.split()) for part in (text or "").replace("\b", "").split("\n\n") if part.strip()]


def _text(text: str) -> str:
    """Return a line of text, which a control character at its start would make a request."""
    text = _escaped(" ".join(text.split()))
    return f"\\&{text}" if text[:1] in (".", "'") else text


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


if __name__ == "__main__":
    sys.stdout.write(manual_page())
