"""The location of a store: its URL, checked and shown without a password."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from controller.model.errors import InputError, one_line

MEMORY = "memory"
"""In place of a URL: nothing outlives the controller."""

_POSTGRES = {"postgresql", "postgres", "postgresql+psycopg"}
_FORMS = "memory, sqlite:////FOLDER/FILE (four slashes) or postgresql://USER@HOST/DATABASE"


def default_url(environment: Mapping[str, str]) -> str:
    """Return the default URL: in systemd's state folder if there is one, else in the XDG state folder.

    Raises:
        InputError: the environment names no folder.
    """
    if folder := environment.get("STATE_DIRECTORY", "").split(":")[0]:
        base = Path(folder)
    elif (folder := environment.get("XDG_STATE_HOME", "")) and Path(folder).is_absolute():
        base = Path(folder, "fairspine")
    elif folder := environment.get("HOME", ""):
        base = Path(folder, ".local", "state", "fairspine")
    else:
        raise InputError("there is no home directory for the default store: set the option store", field="store")
    return URL.create("sqlite", database=str(base / "fairspine.db")).render_as_string()


def parse(text: str) -> URL:
    """Parse a URL for ``Store.open``.

    Raises:
        InputError: it is none; the text is not repeated, because it may hold a password.
    """
    if text == MEMORY:
        return URL.create("sqlite")
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InputError(f"must be {_FORMS}", field="store") from None
    if url.drivername == "sqlite":
        _check_file(url)
        return url
    if url.drivername not in _POSTGRES:
        raise InputError(f"must be {_FORMS}", field="store", value=url.drivername)
    if not url.database:
        raise InputError("names no database: postgresql://USER@HOST/DATABASE", field="store")
    return url.set(drivername="postgresql+psycopg")


def _check_file(url: URL) -> None:
    if url.host or url.username or url.port:
        raise InputError("a SQLite file has no host: sqlite:////FOLDER/FILE (four slashes)", field="store")
    if url.query:
        raise InputError("options of SQLite cannot be given", field="store", value=next(iter(url.query)))
    if not url.database or url.database == ":memory:":
        raise InputError("names no file: sqlite:////FOLDER/FILE (four slashes), or memory", field="store")
    if "\0" in url.database or url.database.startswith("file:"):
        raise InputError("this is not a file name", field="store", value=url.database)


def shown(url: URL) -> str:
    """Return the URL for people: without the password, and without options, which may hold one, too."""
    if url.drivername == "sqlite":
        return url.database or MEMORY
    return url.set(drivername="postgresql", query={})._replace(password=None).render_as_string()


def without_secrets(text: str, url: URL) -> str:
    """Return one line of text in which no secret of the URL is left."""
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return one_line(text)


def _secrets(url: URL) -> Iterable[str]:
    if url.password:
        yield str(url.password)
    for name, value in url.query.items():
        if "pass" in name.lower():
            yield from (v for v in ((value,) if isinstance(value, str) else value) if v)
