"""Write the manual page of ``fairspine`` from the help texts of its commands.

    .venv/bin/python -m scripts.man_page > docs/man/fairspine.1

The format is that of man(7).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import typer

from controller.cli.main import app

FILES = (
    ("~/.config/fairspine/config.toml", "The controllers that commands connect to, and their tokens."),
    ("~/.local/state/fairspine/fairspine.db", "The default store of the controller."),
)
EXIT_CODES = (
    ("0", "Done."),
    ("1", "It could not be done, or something is wrong."),
    ("2", "The command line or a file is invalid; nothing has changed."),
    ("3", "No fault was found, but not everything could be seen."),
)


def manual_page() -> str:
    """Return the page."""
    program: Any = typer.main.get_command(app)
    lines = [f'.TH FAIRSPINE 1 "" "fairspine {_escaped(version("fairspine"))}" "User Commands"']
    lines += [".SH NAME", _text(f"fairspine - {_paragraphs(program.help)[0].rstrip('.').lower()}")]
    lines += [".SH SYNOPSIS", ".B fairspine", ".I command", "[options]", ".SH OPTIONS", *_parameters(program, [])]
    lines += [".SH COMMANDS"]
    for words, command in _leaves(program, []):
        lines += [".SS " + _text(_usage(command, words)), *_body(command, words)]
    lines += [".SH EXIT STATUS", *_listed(EXIT_CODES), ".SH FILES", *_listed(FILES)]
    return "\n".join(lines) + "\n"


def _leaves(command: Any, words: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Yield each command that can be called, with the words of its name."""
    for name in sorted(command.commands):
        one, path = command.commands[name], [*words, name]
        if getattr(one, "commands", None) is None:
            yield path, one
            continue
        if one.invoke_without_command:
            yield path, one
        yield from _leaves(one, path)


def _usage(command: Any, words: Sequence[str]) -> str:
    return " ".join([*words, *command.collect_usage_pieces(_context(command, words))])


def _body(command: Any, words: Sequence[str]) -> Iterator[str]:
    for paragraph in _paragraphs(command.help):
        yield from (".PP", _text(paragraph))
    yield from _parameters(command, words)
    if command.epilog:
        yield from (".PP", _text(command.epilog))


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
