"""The manual page agrees with the commands, is installed, and is well-formed."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.man_page import manual_page

PAGE = Path("docs/man/fairspine.1")


def test_the_manual_page_is_that_of_the_commands() -> None:
    assert PAGE.read_text() == manual_page(), "run .venv/bin/python -m scripts.man_page > docs/man/fairspine.1"


def test_the_page_does_not_depend_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert manual_page() == PAGE.read_text()


def test_the_page_has_commands_of_groups_and_their_options() -> None:
    lines = manual_page().splitlines()
    for heading in (".SS doctor [OPTIONS]", ".SS context use [OPTIONS] [[NAME]]", ".SS token add [OPTIONS] {NAME}"):
        assert heading in lines
    assert "\\fB\\-\\-config\\-file FILE\\fR" in lines


def test_the_page_is_installed() -> None:
    setup = configparser.ConfigParser()
    setup.read("setup.cfg")
    assert setup["options.data_files"]["share/man/man1"].split() == [str(PAGE)]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_is_set_without_a_warning() -> None:
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", PAGE], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "max-min fair routing" in done.stdout
