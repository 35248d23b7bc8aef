"""Generate pages when MkDocs builds the site: from the OpenAPI document and from files at the top level."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from controller.rest.openapi import openapi_document
from controller.rest.resources import RESOURCES
from scripts.site.openapi import markdown

ROOT = Path(__file__).parents[2]
TOP_LEVEL = {
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files that hosting sites expect at the top level, and their pages."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    document = openapi_document(RESOURCES, secured=True)
    files.append(File.generated(config, "reference/openapi.md", content=markdown(document)))
    for name, page in TOP_LEVEL.items():
        files.append(File.generated(config, page, content=_relinked((ROOT / name).read_text(), page)))
    return files


def _relinked(text: str, page: str) -> str:
    """Make links to top-level files and into ``docs/`` relative to ``page``; replace other links by the file's name."""
    up = "../" * page.count("/")

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if target in TOP_LEVEL:
            return f"[{label}]({up}{TOP_LEVEL[target]}{anchor})"
        if target.startswith("docs/"):
            return f"[{label}]({up}{target.removeprefix('docs/')}{anchor})"
        return f"`{target}`"

    return re.sub(r"\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#]*)(#[^)]*)?\)", link, text)
