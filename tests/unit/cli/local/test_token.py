"""``fairspine token``."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from controller.cli.main import main
from controller.core.caller import Role
from controller.rest.security.access import TokenFile
from controller.rest.security.tokens import read_tokens


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FAIRSPINE_TOKENS_FILE", raising=False)

    def called(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["token", *arguments])
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return called


def test_a_token_is_added_once_listed_without_its_secret_and_removed(run: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "tokens")
    code, secret, _ = run("add", "slurm", "--role", "write", "--file", file)
    assert code == 0
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    assert secret.strip() not in Path(file).read_text()
    assert TokenFile(Path(file)).caller(f"Bearer {secret.strip()}").name == "slurm"
    code, out, err = run("add", "slurm", "--role", "read", "--file", file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    run("add", "grafana", "--role", "read", "--file", file)
    code, out, _ = run("list", "--file", file, "--format", "json")
    assert json.loads(out) == {"tokens": [{"name": "slurm", "role": "write"}, {"name": "grafana", "role": "read"}]}
    assert secret.strip() not in run("list", "--file", file)[1]
    assert run("remove", "slurm", "--file", file) == (0, "slurm removed\n", "")
    assert run("remove", "slurm", "--file", file)[0] == 1
    assert [(token.name, token.role) for token in read_tokens(Path(file))] == [("grafana", Role.READ)]


def test_a_token_of_the_agent_of_a_host_names_the_host(run: Any, tmp_path: Path) -> None:
    file = str(tmp_path / "tokens")
    code, secret, err = run("add", "agent-h1", "--role", "host", "--host", "h1", "--file", file)
    assert (code, "agent-h1 is the agent of host h1 now" in err) == (0, True)
    assert TokenFile(Path(file)).caller(f"Bearer {secret.strip()}").hosts == ("h1",)
    assert Path(file).read_text().splitlines()[-1].startswith("agent-h1 host:h1 sha256:")
    assert json.loads(run("list", "--file", file, "--format", "json")[1]) == {
        "tokens": [{"name": "agent-h1", "role": "host", "host": "h1"}]
    }
    assert "host h1" in run("list", "--file", file)[1]
    for wrong in (("--role", "host"), ("--role", "read", "--host", "h1")):
        code, out, err = run("add", "b", *wrong, "--file", file)
        assert (code, out, err.count("\n")) == (2, "", 1)


def test_without_a_file_the_one_in_the_config_folder_is_meant(run: Any, tmp_path: Path) -> None:
    assert run("add", "me", "--role", "read")[0] == 0
    assert len(read_tokens(tmp_path / "config" / "fairspine" / "tokens")) == 1


@pytest.mark.parametrize("arguments", [("add", "a", "--role", "read"), ("remove", "a")])
def test_a_file_in_a_folder_that_does_not_exist_is_refused(
    run: Any, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    file = tmp_path / "typo" / "dir" / "tokens"
    code, out, err = run(*arguments, "--file", str(file))
    assert (code, out) == (2, "")
    assert err == f"fairspine: {file}: the folder {file.parent} does not exist: make it first, or correct the name\n"
    assert not any(tmp_path.iterdir())


def test_a_secret_in_place_of_a_name_a_wrong_role_and_a_broken_file_change_nothing(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("nonsense\n")
    for arguments in (("a", "--role", "admin"), ("a/b", "--role", "read"), ("anonymous", "--role", "read")):
        assert run("add", *arguments, "--file", str(file))[0] == 2
    code, out, err = run("add", "a", "--role", "read", "--file", str(file))
    assert (code, out) == (2, "")
    form = "NAME read|write|host:HOST sha256:HEX [jobs=N] [changes=N] [tenant=NAME]"
    assert err == f"fairspine: {file}: line 1: must be like '{form}'\n"
    assert file.read_text() == "nonsense\n"
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]
