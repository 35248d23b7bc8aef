"""The documents agree with the tree: files, commands and options that they name exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import typer.main
import yaml
from typer.core import TyperGroup

from controller.cli.main import app
from tests.documented import ROOT, fences_of, pages

TEXT = {".py", ".md", ".conf", ".service", ".yaml", ".yml", ".toml", ".cfg", ".sh", ".js", ".html", ".json", ""}
COMMAND = re.compile(r"^(?:\$ |sudo |    )?(?:sudo )?(?:\.venv/bin/)?fairspine ((?:[^#\n]|#(?! ))*)", re.MULTILINE)


def tracked() -> list[Path]:
    """Return the text files of the project."""
    skipped = {".venv", ".git", "out", "build", "node_modules"}
    return [
        path
        for path in ROOT.rglob("*")
        if not skipped & set(path.relative_to(ROOT).parts)
        and not any(part.startswith(".") or part.endswith(".egg-info") for part in path.relative_to(ROOT).parts[:-1])
        and path.suffix in TEXT
        and path.is_file()
    ]


def test_every_page_that_code_examples_or_messages_name_is_there() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in tracked()
        for name in re.findall(r"\bdocs/[\w/.-]+\.(?:md|png)\b", path.read_text(errors="replace"))
        if not re.search(r"NAME|SECTION", name) and not (ROOT / name).exists()
    }
    assert missing == set()


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "docs/explanation/architecture.md"])
def test_every_file_that_a_guide_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    named = {name for name in re.findall(r"`([\w./-]+/[\w./-]*)`", text) if not re.search(r"NAME|^out/|^/", name)}
    places = [ROOT, ROOT / "controller", ROOT / "controller/southbound", ROOT / "controller/service"]
    assert {name for name in named if not any((place / name).exists() for place in places)} == set()


def test_the_names_that_the_recipes_for_contributors_give_are_in_the_files_that_they_give() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    found = re.findall(r"`(\w+)`[^`.]*\bin\s+`([\w/.]+\.(?:py|cfg|js))`", text)
    assert len(found) >= 5
    assert [(name, file) for name, file in found if name not in (ROOT / file).read_text()] == []


def test_no_page_has_two_sections_of_one_name() -> None:
    """A link to such a section leads to the first one, and mostly one is an older copy of the other."""
    names = [(page, name) for page in pages() if page.name != "CHANGELOG.md" for name in sections_of(page)]
    assert [(page.name, name) for page, name in set(names) if names.count((page, name)) > 1] == []


def sections_of(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    """Return (page, arguments) of every fairspine command that a page shows in a block."""
    found = []
    for page in pages():
        for language, block in fences_of(page):
            if language in ("", "bash", "sh", "console"):
                joined = re.sub(r"\\\n\s*", "", block)
                found += [(str(page.relative_to(ROOT)), match[1].strip()) for match in COMMAND.finditer(joined)]
    return list(dict.fromkeys(found))


def test_the_documents_show_many_commands() -> None:
    assert len(commands()) > 60


@pytest.mark.parametrize(("page", "arguments"), commands())
def test_every_command_and_option_that_a_page_shows_exists(page: str, arguments: str) -> None:
    words = shlex.split(re.split(r"\s(?:>|\||&&|;)\s", arguments.replace("[", "").replace("]", ""))[0])
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    assert not isinstance(command, TyperGroup) or command.invoke_without_command, f"{page}: fairspine {arguments}"
    assert command.name != typer.main.get_command(app).name, f"{page}: fairspine {arguments}"
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.split("=")[0] for word in words if re.match(r"--\w|-[a-z]$", word)}
    assert used <= options | {"--help", "--version"}, f"{page}: fairspine {arguments}"


def test_the_git_hooks_are_the_lines_of_make_check() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    printed = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    lines = [re.sub(r"^\w+=\S+ ", "", line) for line in printed.splitlines() if ".venv/bin/" in line]
    assert [hook["entry"] for hook in hooks] == lines
