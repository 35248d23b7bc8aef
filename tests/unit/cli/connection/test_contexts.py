"""Named controllers of the config file, and the options that select one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.cli.connection.config_file import DEFAULT_URL, config_file, read_config
from controller.cli.connection.remote import Remote
from controller.cli.main import main
from controller.model.errors import InputError
from tests.unit.cli.fake_controller import Controller

CONFIG = """
url = "http://first:1"
token = "of-first"

[contexts.lab]
url = "https://lab:2"
token_file = "lab.token"

[contexts.open]
url = "http://open:3"
"""

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = config_file().parent
    folder.mkdir(exist_ok=True)
    private(config_file(), CONFIG)
    private(folder / "lab.token", "of-lab\n")
    return folder


def private(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


def selected(**options: Any) -> tuple[str, str | None]:
    client = Remote(**options).client()
    return client.url, client._token


def test_an_option_goes_before_the_environment_and_this_before_the_context_in_use(
    config: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert selected() == ("http://first:1", "of-first")
    assert run("context", "use", "lab")[0] == 0
    assert selected() == ("https://lab:2", "of-lab")
    monkeypatch.setenv("FAIRSPINE_CONTEXT", "open")
    assert selected() == ("http://open:3", None)
    monkeypatch.setenv("FAIRSPINE_URL", "http://other:4")
    monkeypatch.setenv("FAIRSPINE_TOKEN", "of-other")
    assert selected() == ("http://other:4", "of-other")
    # Nor to one that it names by another URL.
    assert selected(url="http://named:5") == ("http://named:5", None)
    assert selected(url="http://named:5", token="mine") == ("http://named:5", "mine")
    # The secret of the environment is not sent to a controller that the command line names as a context.
    assert selected(context="open") == ("http://open:3", None)
    assert selected(context="lab") == ("https://lab:2", "of-lab")
    monkeypatch.delenv("FAIRSPINE_URL")
    # Nor to a context that the environment or 'context use' selects.
    assert selected() == ("http://open:3", None)
    assert selected(url="http://named:5") == ("http://named:5", "of-other")
    monkeypatch.delenv("FAIRSPINE_CONTEXT")
    assert selected() == ("https://lab:2", "of-lab")
    monkeypatch.delenv("FAIRSPINE_TOKEN")
    assert run("context", "use")[0] == 0
    assert selected() == ("http://first:1", "of-first")


def test_a_token_of_the_file_goes_to_its_own_controller_alone(config: Path) -> None:
    assert selected(url="https://lab:2/") == ("https://lab:2/", "of-lab")
    assert selected(url="http://lab:9") == ("http://lab:9", None)


def test_a_token_without_a_url_is_of_the_default_url(config: Path) -> None:
    private(config_file(), 'token = "of-default"')
    assert selected() == (DEFAULT_URL, "of-default")
    assert selected(url=DEFAULT_URL) == (DEFAULT_URL, "of-default")
    assert selected(url="http://lab:9") == ("http://lab:9", None)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--context", "labs"], "--context: 'labs': "),
        (["--context", "lab", "--url", "http://a"], "--context: 'lab': cannot be used with --url"),
    ],
)
def test_a_wrong_context_is_one_line_that_lists_the_contexts(
    config: Path,
    run: Run,
    arguments: list[str],
    says: str,
) -> None:
    code, out, err = run("jobs", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert "--url" in err or "lab, open" in err
    assert run("context", "use", "labs")[0] == 2
    assert selected() == ("http://first:1", "of-first")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[contexts.a]\nca_file = 'x'", "contexts.a.url: is missing"),
        ("[contexts.a]\nurls = 'x'", "contexts.a.urls: unknown key"),
        ("contexts = 'a'", "contexts: must be tables"),
        ("[contexts]\na = 'x'", "contexts.a: must be a table"),
    ],
)
def test_wrong_contexts_are_one_line_that_names_the_key(config: Path, text: str, says: str) -> None:
    private(config_file(), text)
    with pytest.raises(InputError) as caught:
        read_config()
    assert says in str(caught.value)


def test_a_token_file_that_others_may_read_is_refused(config: Path) -> None:
    (config / "lab.token").chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        selected(context="lab")


def test_a_token_file_is_read_only_where_its_token_is_used(config: Path) -> None:
    (config / "lab.token").unlink()
    assert selected() == ("http://first:1", "of-first")
    assert selected(context="open") == ("http://open:3", None)
    assert selected(context="lab", token="mine") == ("https://lab:2", "mine")
    with pytest.raises(InputError, match=r"lab.token: No such file"):
        selected(context="lab")


def test_contexts_are_listed_without_their_secrets(config: Path, run: Run) -> None:
    run("context", "use", "open")
    code, out, _ = run("context", "list")
    rows = [line.split() for line in out.splitlines() if "://" in line]
    assert (code, rows) == (0, [["lab", "https://lab:2", "yes"], ["*", "open", "http://open:3", "no"]])
    document = json.loads(run("context", "list", "--format", "json")[1])
    assert document["contexts"][1] == {"name": "open", "url": "http://open:3", "token": False, "used": True}
    assert "of-lab" not in out


def test_options_before_a_subcommand_hold_for_it_unless_they_are_given_again(
    controller: Controller,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAIRSPINE_URL", "http://127.0.0.1:1")
    controller.lay_out((200, {"jobs": []}), (200, {"jobs": []}))
    code, out, _ = run("jobs", "--url", controller.url, "--format", "json", "list")
    assert (code, json.loads(out)) == (0, {"jobs": []})
    code, out, _ = run("jobs", "--format", "json", "list", "--url", controller.url, "--output", "yaml")
    assert (code, out) == (0, "---\njobs: []\n")


def test_names_are_completed_by_what_the_controller_has(
    controller: Controller,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    config: Path,
) -> None:
    fabric = {
        "switches": [{"name": "leaf1"}, {"name": "spine1"}],
        "links": [{"id": "leaf1-spine1"}],
        "hosts": [{"name": "h1"}],
    }

    def completed(line: str) -> list[str]:
        monkeypatch.setenv("_FAIRSPINE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit):
            main([])
        return capsys.readouterr().out.split()

    monkeypatch.setenv("FAIRSPINE_URL", controller.url)
    controller.lay_out(*[(200, fabric)] * 2, *[(200, {"jobs": [{"name": "gpt3"}, {"name": "llama"}]})] * 2)
    assert completed("fairspine drain le") == ["leaf1", "leaf1-spine1"]
    assert completed("fairspine routes h") == ["h1"]
    assert completed("fairspine jobs show g") == ["gpt3"]
    assert completed("fairspine preview --delete l") == ["llama"]
    assert completed("fairspine jobs --context o") == ["open"]
    # A controller that does not answer completes nothing, and writes nothing into the line.
    monkeypatch.setenv("FAIRSPINE_URL", "http://127.0.0.1:1")
    assert completed("fairspine drain le") == []
