"""Selection of the controller that a command connects to: options, environment, and the user's config file."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.connection.client import READ_SECONDS, TIMEOUT_SECONDS, Client
from controller.cli.connection.config_file import (
    DEFAULT_URL,
    Config,
    ConnectionSettings,
    has_urls,
    matching_contexts,
    read_config,
    used_context,
)
from controller.cli.shared.change_options import ChangeOptions
from controller.model.errors import InputError


@dataclass(frozen=True)
class Remote:
    """The options of the command line that select a controller; ``None`` if not given."""

    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="URL of the controller, or those of the replicas of a cluster, with commas between them; the next is "
            f"tried if one is gone.  [env var: FAIRSPINE_URL; default: that of the context, or {DEFAULT_URL}]",
            show_default=False,
        ),
    ] = None
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="SECRET",
            help="The secret of a token; prefer the environment or the config file, because other users can read "
            "command lines.  [env var: FAIRSPINE_TOKEN]",
            show_default=False,
        ),
    ] = None
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file",
            metavar="FILE",
            help="Certificates to trust, in PEM.  [env var: FAIRSPINE_CA_FILE]",
            show_default=False,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            help="A controller of the config file ('fairspine context list').  [env var: FAIRSPINE_CONTEXT]",
            show_default=False,
            autocompletion=matching_contexts,
        ),
    ] = None

    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            help=f"Maximum time to wait for an answer.  [default: {READ_SECONDS:g} for reads, {TIMEOUT_SECONDS:g} for "
            "changes, traces, and what is computed]",
            show_default=False,
        ),
    ] = None

    def client(self, change: ChangeOptions | None = None, *, timeout: float | None = None) -> Client:
        """Return a client of the selected controller.

        ``change``: what it says of its changes. ``timeout``: limit on each request, if no option gives one.

        Raises:
            InputError: an option, or the config file, cannot be used.
        """
        chosen = self._settings(read_config())
        url = chosen.url or DEFAULT_URL
        return Client(
            url,
            token=chosen.secret(),
            ca_file=chosen.ca_file,
            timeout=self.timeout or timeout,
            reason=None if change is None else change.reason,
        )

    def _settings(self, config: Config) -> ConnectionSettings:
        """Return the settings of the first that is given: an option, the environment, the context in use, the file.

        A token is sent to the controller that it was given for, and to no other one: that of a context to the
        context's URL, FAIRSPINE_TOKEN to FAIRSPINE_URL, or, if that is not set, to a URL that no context supplies.
        """
        if self.context is not None:
            if self.url is not None:
                raise InputError("cannot be used with --url", field="--context", value=self.context)
            return self._over(config.named(self.context, "--context"))
        of_environment = os.environ.get("FAIRSPINE_URL")
        url = self.url or of_environment
        if url:
            kept = config.settings_for(url)
            kept = dataclasses.replace(kept, url=url, ca_file=kept.ca_file or config.unnamed.ca_file)
        elif named := os.environ.get("FAIRSPINE_CONTEXT"):
            return self._over(config.named(named, "FAIRSPINE_CONTEXT"))
        elif used := used_context():
            return self._over(config.named(used, "fairspine context use"))
        else:
            kept = config.unnamed
        token = os.environ.get("FAIRSPINE_TOKEN")
        if url and of_environment and not has_urls(of_environment, url):
            token = None
        if ca_file := os.environ.get("FAIRSPINE_CA_FILE"):
            kept = dataclasses.replace(kept, ca_file=Path(ca_file))
        return self._over(dataclasses.replace(kept, token=token or kept.token))

    def _over(self, kept: ConnectionSettings) -> ConnectionSettings:
        """Return the settings with those options in their place that the command line gives."""
        return dataclasses.replace(
            kept, url=self.url or kept.url, token=self.token or kept.token, ca_file=self.ca_file or kept.ca_file
        )
