"""The user's config file: the controllers that commands connect to."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.model.errors import InputError
from controller.whole_file import replace_private

DEFAULT_URL = "http://127.0.0.1:8080"

_KEYS = ("url", "token", "token_file", "ca_file")
_CONTEXTS = "contexts"


@dataclass(frozen=True)
class ConnectionSettings:
    """The URL of a controller, and the credentials for it. ``None``: not given.

    ``url``: may be those of several replicas of a cluster, with commas between them.
    ``token_file``: the file with the token, if ``token`` is not given; it is read when a command uses it.
    """

    url: str | None = None
    token: str | None = None
    ca_file: Path | None = None
    token_file: Path | None = None

    @property
    def has_token(self) -> bool:
        """Tell whether a token is configured."""
        return self.token is not None or self.token_file is not None

    def secret(self) -> str | None:
        """Return the token.

        Raises:
            InputError: its file cannot be read, is empty, or other users can read it.
        """
        if self.token is None and self.token_file is not None:
            return _secret(self.token_file)
        return self.token


@dataclass(frozen=True)
class Config:
    """``unnamed``: from the top of the file; used where no context is chosen. ``contexts``: by name."""

    unnamed: ConnectionSettings
    contexts: Mapping[str, ConnectionSettings]

    def named(self, name: str, field: str) -> ConnectionSettings:
        """Return the context of this name.

        Raises:
            InputError: there is none; ``field`` says where the name was given.
        """
        if name not in self.contexts:
            known = f"the contexts are {', '.join(self.contexts)}" if self.contexts else "the file has no contexts"
            raise InputError(f"{config_file()} has no context of this name; {known}", field=field, value=name)
        return self.contexts[name]

    def settings_for(self, url: str) -> ConnectionSettings:
        """Return the settings of the controller with this URL, or these; empty ones if the file does not have them.

        Settings at the top of the file without a URL are those of ``DEFAULT_URL``.
        """
        for one in (self.unnamed, *self.contexts.values()):
            if has_urls(one.url or DEFAULT_URL, url):
                return one
        return ConnectionSettings()


def has_urls(known: str, asked: str) -> bool:
    """Return whether all URLs of ``asked`` are in ``known``; each is one URL, or several with commas between them."""

    def each(urls: str) -> set[str]:
        return {url.strip().rstrip("/") for url in urls.split(",")}

    return each(asked) <= each(known)


def config_folder() -> Path:
    """Return the user's config folder of fairspine (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".config") / "fairspine"


def config_file() -> Path:
    """Return the path of the user's config file."""
    return config_folder() / "config.toml"


def used_context() -> str | None:
    """Return the context that ``fairspine context use`` has chosen."""
    try:
        return _used_file().read_text().strip() or None
    except OSError:
        return None


def use_context(name: str | None) -> None:
    """Choose a context for the commands that follow; ``None``: the settings at the top of the config file.

    Raises:
        InputError: the choice cannot be written.
    """
    replace_private(_used_file(), f"{name or ''}\n")


def read_config() -> Config:
    """Return the content of the user's config file; empty if the file does not exist.

    Raises:
        InputError: the file is not TOML, has unknown keys or values of a wrong type, or others can read a token in it.
    """
    path = config_file()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            document = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return Config(ConnectionSettings(), {})
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}", source=str(path)) from None
    tables = document.pop(_CONTEXTS, {})
    if not isinstance(tables, dict):
        raise InputError(f"must be tables like [{_CONTEXTS}.NAME]", field=_CONTEXTS, source=str(path))
    unnamed = _settings(document, path, mode, "")
    contexts = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"must be a table [{_CONTEXTS}.{name}]", field=f"{_CONTEXTS}.{name}", source=str(path))
        contexts[name] = _settings(table, path, mode, f"{_CONTEXTS}.{name}.")
        if contexts[name].url is None:
            raise InputError("is missing", field=f"{_CONTEXTS}.{name}.url", source=str(path))
    return Config(unnamed, contexts)


def matching_contexts(incomplete: str) -> list[str]:
    """Return the names of contexts of the config file that begin so, for completion by the shell."""
    try:
        return [name for name in read_config().contexts if name.startswith(incomplete)]
    except InputError:
        return []


def _settings(table: Mapping[str, Any], path: Path, mode: int, within: str) -> ConnectionSettings:
    for key, value in table.items():
        if key not in _KEYS:
            known = (*_KEYS, *(() if within else (_CONTEXTS,)))
            raise InputError(f"unknown key; the keys are {', '.join(known)}", field=within + key, source=str(path))
        if key == "url" and isinstance(value, list) and value and all(isinstance(one, str) and one for one in value):
            continue
        if not isinstance(value, str) or not value:
            # The value is not shown: it may be a secret.
            expected = "must be text, or a list of texts" if key == "url" else "must be text"
            raise InputError(expected, field=within + key, source=str(path))
    if "token" in table:
        _check_private(mode, f"{within}token", path)
    if "token" in table and "token_file" in table:
        raise InputError("cannot be used with token", field=f"{within}token_file", source=str(path))

    def beside(key: str) -> Path | None:
        return path.parent / Path(table[key]).expanduser() if key in table else None

    url = table.get("url")
    return ConnectionSettings(
        ",".join(url) if isinstance(url, list) else url, table.get("token"), beside("ca_file"), beside("token_file")
    )


def _secret(path: Path) -> str:
    """Return the content of a token file.

    Raises:
        InputError: it cannot be read, is empty, or other users can read it.
    """
    try:
        with path.open() as file:
            _check_private(os.fstat(file.fileno()).st_mode, "", path)
            secret = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(getattr(error, "strerror", None) or "is not text", source=str(path)) from None
    if not secret:
        raise InputError("is empty: write the secret of a token into it", source=str(path))
    return secret


def _check_private(mode: int, field: str, path: Path) -> None:
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError("other users can read this secret: chmod 600", field=field, source=str(path))


def _used_file() -> Path:
    return config_folder() / "context"
