"""Files that commands write: whole or not at all, and errors that say what to do."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli.shared import files
from controller.cli.shared.files import write_text
from controller.cli.shared.output import plural
from controller.model.errors import InputError
from controller.whole_file import write_bytes
from controller.workload.job_file import parse_job

FAIRSPINE = str(Path(sys.executable).with_name("fairspine"))


def broken() -> Iterator[str]:
    """Text whose writer fails after its first part."""
    yield "the beginning"
    raise OSError(28, "No space left on device")


def test_a_file_that_cannot_be_completed_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    with pytest.raises(InputError, match="No space left on device; free some space or choose another place"):
        write_text(path, broken())
    assert list(tmp_path.iterdir()) == []
    write_text(path, ["old"])
    with pytest.raises(InputError):
        write_text(path, broken())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_standard_output_gets_all_or_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> Iterator[str]:
        yield "the beginning"
        raise InputError("a flow has no path", source="plan.json")

    parts = ["one\r\n", "zwei: ü\n"]
    # Also where the text waits in a file.
    for characters in (1 << 20, 4):
        monkeypatch.setattr(files, "SPOOLED_CHARACTERS", characters)
        with pytest.raises(InputError, match="a flow has no path"):
            write_text(None, refused())
        assert capsys.readouterr().out == ""
        write_text(Path("-"), parts)
        assert capsys.readouterr().out == "".join(parts)


def test_a_limit_on_the_size_of_files_leaves_no_part_of_one(tmp_path: Path) -> None:
    path = tmp_path / "fabric.xml"
    done = subprocess.run(
        [
            "prlimit",
            "--fsize=16",
            FAIRSPINE,
            "export",
            "htsim-topo",
            "--fabric",
            "examples/clos-4x4x4.yaml",
            "--out",
            path,
        ],
        # The limit would also cut off the compiled modules that Python keeps, without an error until they are read.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "cannot be written: File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("call", "text"), [("fchmod", b"old"), ("fsync", b"old"), ("replace", b"new")])
def test_a_signal_at_any_moment_is_heeded_and_leaves_one_file_as_it_was_or_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, text: bytes
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    real = getattr(os, call)

    def then_terminated(*args: object) -> None:
        real(*args)
        raise SystemExit(143)

    monkeypatch.setattr(os, call, then_terminated)
    with pytest.raises(SystemExit, match="143"):
        write_bytes(file, [b"new"])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": text}


def test_a_new_file_has_the_users_mask_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = tmp_path / "a"
        write_bytes(path, [b"a"])
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_bytes(path, [b"b"])
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


def test_a_link_stays_one_and_a_device_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("real")
    write_text(link, ["new"])
    assert link.is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    write_text(Path("/dev/null"), ["gone"])
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(("place", "mend"), [("no/such/folder", "make its folder first"), ("", "give the name of a")])
def test_an_error_says_what_to_do(tmp_path: Path, place: str, mend: str) -> None:
    with pytest.raises(InputError, match=mend) as caught:
        write_text(tmp_path / place, ["text"])
    assert "Errno" not in str(caught.value)


def test_a_full_output_is_told_without_numbers_of_errors() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([FAIRSPINE, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "fairspine: standard output cannot be written: No space left on device\n"


def test_one_thing_is_not_several() -> None:
    assert [plural(n, "job") for n in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert plural(2, "leaf", "leaves") == "2 leaves"


@pytest.mark.parametrize(
    ("document", "field"), [({"name": "a", "flows": [3]}, "flows[0]"), ({"name": "a", "collectives": [4]}, "coll")]
)
def test_an_entry_of_another_kind_is_told_without_names_of_classes(document: dict[str, object], field: str) -> None:
    with pytest.raises(InputError, match=r"input should be a mapping$") as caught:
        parse_job(document, source="job.yaml")
    assert caught.value.field is not None
    assert caught.value.field.startswith(field)
