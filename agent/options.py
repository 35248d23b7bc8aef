"""Options that commands of agents share: the host, its controller, and how it shows who it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HostArgument = Annotated[str, typer.Argument(metavar="HOST", help="The name of this host in the fabric file.")]
UrlOption = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar="FAIRSPINE_URL",
        help="URL of the controller, or those of the replicas of a cluster, with commas between them.",
    ),
]
DEFAULT_URL = "http://127.0.0.1:8080"
TokenFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file with the secret of a token.  [env var: FAIRSPINE_TOKEN, the secret]"),
]
CaFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", envvar="FAIRSPINE_CA_FILE", help="Certificates to trust, in PEM.")
]
CertOption = Annotated[
    Path | None, typer.Option(metavar="FILE", envvar="FAIRSPINE_CERT", help="The certificate of this host, in PEM.")
]
KeyOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", envvar="FAIRSPINE_KEY", help="Its key, if the certificate's file has none."),
]
