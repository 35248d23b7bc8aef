"""Where the controller's options come from: errors about a value of a configuration file name the file."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from controller.model.errors import InputError

_OF_TYPE = re.compile(r"argument --(\w+): (.*)")


def naming_the_file(error: InputError, conf: Any, args: Sequence[str]) -> InputError:
    """Return the same error with the configuration file of its option, if the option has its value from one.

    Args:
        error: an error whose field begins with the name of an option, or with anything else.
        conf: the parsed options; of an option that the command line and a file have, they know the file alone.
        args: the command line.
    """
    words = re.match(r"\w+", error.field)
    if error.source or words is None or words[0] not in conf or _is_given(words[0], args):
        return error
    origin = conf.get_location(words[0])
    is_of_file = origin is not None and origin.location is cfg.Locations.user
    return error.with_source(origin.detail) if is_of_file else error


def wrong_type(said: str, args: Sequence[str]) -> InputError:
    """Return the error of what the parser of options says in its last line.

    It takes values of files for defaults of the command line, and names neither the file nor the option as it is given.

    Args:
        said: the line.
        args: the command line.
    """
    complaint = _OF_TYPE.fullmatch(said)
    if complaint is None:
        return InputError(said)
    option, reason = complaint.groups()
    if _is_given(option, args):
        return InputError(reason, field=_shown(option))
    files = [file for file in _files(args) if option in _keys(file)]
    return InputError(reason, field=option, source=files[-1] if files else "")


def _shown(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _is_given(option: str, args: Sequence[str]) -> bool:
    return any(argument.partition("=")[0] == _shown(option) for argument in args)


def _files(args: Sequence[str]) -> Iterator[str]:
    """Yield the configuration files that a command line names."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config-file", action="append", default=[])
    parser.add_argument("--config-dir", action="append", default=[])
    named = parser.parse_known_args(args)[0]
    yield from named.config_file
    for folder in named.config_dir:
        yield from sorted(str(file) for file in Path(folder).glob("*.conf"))


def _keys(file: str) -> set[str]:
    sections: dict[str, dict[str, Any]] = {}
    cfg.ConfigParser(file, sections).parse()
    return set(sections.get("DEFAULT", ()))
