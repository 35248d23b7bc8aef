"""``fairspine probe-ports``: what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.main import main


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        ("{", [], "task.json: is not JSON"),
        ("{}", [], "task.json: host: is missing"),
        ("{}", ["--format", "xml"], "--format: is table or json, and not 'xml'"),
        (None, [], "task.json: No such file or directory"),
    ],
)
def test_a_task_that_cannot_be_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, more: list[str], message: str
) -> None:
    file = tmp_path / "task.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SystemExit) as end:
        main(["probe-ports", str(file), *more])
    assert end.value.code == 2
    assert message in capsys.readouterr().err
