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
CHANGELOG = "CHANGELOG.md"
TOP_LEVEL = {
    CHANGELOG: "releases/index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files that hosting sites expect at the top level, and their pages."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put a page for each version into the navigation, below *Releases*."""
    pages = [{version: page} for version, (page, _) in _releases().items()]
    config.nav = [_with_releases(entry, pages) for entry in config.nav or []]
    return config


def _with_releases(entry: object, pages: list[dict[str, str]]) -> object:
    return {"Releases": [TOP_LEVEL[CHANGELOG], *pages]} if entry == {"Releases": TOP_LEVEL[CHANGELOG]} else entry


def _releases() -> dict[str, tuple[str, str]]:
    """Return the page and the notes of each version in the changelog, newest first."""
    _, *sections = re.split(r"^## (.+)$", (ROOT / CHANGELOG).read_text(), flags=re.MULTILINE)
    notes = dict(zip(sections[::2], sections[1::2], strict=True))
    versions = {heading: heading.split(" - ")[0] for heading in notes}
    return {
        version: (f"releases/{version.lower()}.md", f"# {heading}\n{notes[heading]}")
        for heading, version in versions.items()
    }


def _contents(text: str) -> str:
    """Return the head of the changelog, with a link to the page of each version."""
    links = [f"- [{version}]({Path(page).name})" for version, (page, _) in _releases().items()]
    return text.split("\n## ")[0] + "\n\n" + "\n".join(links) + "\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    document = openapi_document(RESOURCES, secured=True)
    files.append(File.generated(config, "reference/openapi.md", content=markdown(document)))
    for name, page in TOP_LEVEL.items():
        text = (ROOT / name).read_text()
        files.append(
            File.generated(config, page, content=_relinked(_contents(text) if name == CHANGELOG else text, page))
        )
    for page, notes in _releases().values():
        files.append(File.generated(config, page, content=_relinked(notes, page)))
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
