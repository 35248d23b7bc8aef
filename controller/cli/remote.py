"""Selection of the controller that a command connects to: options, environment, and the user's config file."""

from __future__ import annotations

import os
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.client import Client
from controller.model.errors import InputError

DEFAULT_URL = "http://127.0.0.1:8080"


def _url(envvar: str | None) -> Any:
    return typer.Option(
        "--url",
        envvar=envvar,
        metavar="URL",
        help=f"URL of the controller.  [default: that of the config file, or {DEFAULT_URL}]",
        show_default=False,
    )


def _token(envvar: str | None) -> Any:
    return typer.Option(
        "--token",
        envvar=envvar,
        metavar="SECRET",
        help="The secret of a token; prefer the environment or the config file, because other users can read command "
        "lines.",
        show_default=False,
    )


def _ca_file(envvar: str | None) -> Any:
    return typer.Option(
        "--ca-file", envvar=envvar, metavar="FILE", help="Certificates to trust, in PEM.", show_default=False
    )


UrlOption = Annotated[str | None, _url("FAIRSPINE_URL")]
TokenOption = Annotated[str | None, _token("FAIRSPINE_TOKEN")]
CaFileOption = Annotated[Path | None, _ca_file("FAIRSPINE_CA_FILE")]

# For subcommands whose parent has the same options: the environment must not override options given to the parent.
InnerUrlOption = Annotated[str | None, _url(None)]
InnerTokenOption = Annotated[str | None, _token(None)]
InnerCaFileOption = Annotated[Path | None, _ca_file(None)]

_KEYS = ("url", "token", "ca_file")


@dataclass(frozen=True)
class Remote:
    """Connection options from the command line, the environment or the config file; ``None`` if not given."""

    url: str | None = None
    token: str | None = None
    ca_file: Path | None = None

    def over(self, outer: Remote) -> Remote:
        """Return these options, completed by those given before the name of the subcommand."""
        return Remote(self.url or outer.url, self.token or outer.token, self.ca_file or outer.ca_file)

    def client(self) -> Client:
        """Return a client of the selected controller.

        Raises:
            InputError: an option, or the config file, cannot be used.
        """
        kept = read_config(config_file())
        url = self.url or kept.url or DEFAULT_URL
        token = self.token
        # The secret of the configured controller is not sent to another one that the command line names.
        if token is None and url.rstrip("/") == (kept.url or DEFAULT_URL).rstrip("/"):
            token = kept.token
        return Client(url, token=token, ca_file=self.ca_file or kept.ca_file)


def config_file() -> Path:
    """Return the path of the user's config file (XDG Base Directory Specification)."""
    return config_folder() / "config.toml"


def config_folder() -> Path:
    """Return the user's config folder of fairspine."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".config") / "fairspine"


def read_config(path: Path) -> Remote:
    """Return the options of a config file; none if the file does not exist.

    Raises:
        InputError: the file is not TOML, has unknown keys or values of a wrong type, or other users can read its token.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            document = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return Remote()
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}", source=str(path)) from None
    for key, value in document.items():
        if key not in _KEYS:
            raise InputError(f"unknown key; the keys are {', '.join(_KEYS)}", field=key, source=str(path))
        if not isinstance(value, str) or not value:
            # The value is not shown: it may be a secret.
            raise InputError("must be text", field=key, source=str(path))
    if "token" in document and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError("other users can read this secret: chmod 600", field="token", source=str(path))
    ca_file = document.get("ca_file")
    return Remote(
        document.get("url"),
        document.get("token"),
        None if ca_file is None else path.parent / Path(ca_file).expanduser(),
    )
