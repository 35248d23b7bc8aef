"""Files, compressed files and archives are read the same way, in place, with bounds."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.importers import streams
from controller.workload.importers.base import Source
from controller.workload.importers.streams import lines, open_sources, text_source
from tests.unit.laws import examples

_CONTENTS = st.lists(st.binary(max_size=3000), min_size=1, max_size=5)


def _tar(contents: list[bytes], mode: Literal["w", "w:gz"], *, compress_members: bool = False) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for i, content in enumerate(contents):
            packed = gzip.compress(content) if compress_members else content
            info = tarfile.TarInfo(f"run/rank{i}.log")
            info.size = len(packed)
            archive.addfile(info, io.BytesIO(packed))
    return file.getvalue()


def _read(source: Source) -> bytes:
    with source.open() as stream:
        return stream.read()


def _not_gzip(content: bytes) -> bytes:
    return b"." + content


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(20, 120))
@given(contents=_CONTENTS, mode=st.sampled_from(["w", "w:gz"]), packed=st.booleans(), data=st.data())
def test_members_of_an_archive_are_its_files_in_whatever_order_they_are_opened(
    tmp_path: Path, contents: list[bytes], mode: Literal["w", "w:gz"], packed: bool, data: st.DataObject
) -> None:
    contents = [_not_gzip(content) for content in contents]
    path = tmp_path / "logs"
    path.write_bytes(_tar(contents, mode, compress_members=packed))
    sources = open_sources([path])
    assert [source.name for source in sources] == [f"{path}/run/rank{i}.log" for i in range(len(contents))]
    for i in data.draw(st.permutations(range(len(contents)))):
        assert _read(sources[i]) == contents[i]
    # Two at once, read by turns.
    first, last = sources[0].open(), sources[-1].open()
    with first, last:
        head = first.read(10)
        assert last.read() == contents[-1]
        assert head + first.read() == contents[0]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(10, 60))
@given(content=st.binary(max_size=3000))
def test_a_compressed_file_reads_like_a_plain_one_whatever_its_name(tmp_path: Path, content: bytes) -> None:
    plain, packed = tmp_path / "plain.log.gz", tmp_path / "packed.log"
    plain.write_bytes(_not_gzip(content))
    packed.write_bytes(gzip.compress(_not_gzip(content)))
    assert [_read(source) for source in open_sources([plain, packed])] == [_not_gzip(content)] * 2


def test_the_bytes_read_from_disk_are_reported_and_add_up_to_the_sizes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 3000
    (tmp_path / "a.log").write_bytes(content)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(content))
    (tmp_path / "c.tar").write_bytes(_tar([content, content], "w"))
    told: list[int] = []
    sources = open_sources(sorted(tmp_path.iterdir()), told.append)
    assert sum(told) == 0
    for source in sources:
        _read(source)
    on_disk = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert sum(source.size or 0 for source in sources) == pytest.approx(on_disk, abs=4)
    assert sum(told) == pytest.approx(on_disk, rel=0.1)


def test_an_archive_opened_in_order_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "logs.tgz"
    path.write_bytes(_tar([bytes(range(256)) * 400] * 20, "w:gz"))
    told: list[int] = []
    for source in open_sources([path], told.append):
        _read(source)
    assert sum(told) <= path.stat().st_size


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("cut.gz", gzip.compress(bytes(range(256)) * 90)[:-60], "ends within its compressed data"),
        ("bad.gz", b"\x1f\x8b\x08\x00" + b"\xff" * 60, "is damaged"),
        ("x.bz2", b"BZh91AY&SY", "is compressed with bzip2"),
        ("x.zip", b"PK\x03\x04abc", "is compressed with zip"),
        ("cut.tar", _tar([b"x" * 5000, b"y" * 5000], "w")[:3000], "is not a readable archive"),
        ("empty.tar", _tar([], "w") + b"", None),
    ],
)
def test_a_broken_file_is_one_clear_error(tmp_path: Path, name: str, content: bytes, reason: str | None) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    if reason is None:
        # Nothing but zeros: no archive by its first bytes, and whoever reads it says what is missing.
        assert _read(open_sources([path])[0]) == content
        return
    with pytest.raises(InputError, match=reason) as error:
        [_read(source) for source in open_sources([path])]
    assert str(path) in str(error.value)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(75, 450))
@given(
    kind=st.sampled_from(["tar", "tgz", "gz"]),
    packed=st.booleans(),
    changes=st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=12)), max_size=6),
    cut=st.integers(0, 4000) | st.none(),
)
def test_a_damaged_archive_is_read_or_refused(
    tmp_path: Path, kind: str, packed: bool, changes: list[tuple[int, bytes]], cut: int | None
) -> None:
    contents = [b"first" * 40, b"", b"third" * 200]
    content = bytearray(
        gzip.compress(contents[2])
        if kind == "gz"
        else _tar(contents, "w" if kind == "tar" else "w:gz", compress_members=packed)
    )
    for at, new in changes:
        content[at : at + len(new)] = new
    path = tmp_path / "damaged"
    path.write_bytes(content[:cut])
    try:
        for source in open_sources([path]):
            _read(source)
    except InputError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_file_that_is_said_to_be_endless_is_refused_at_once(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("rank0.log")
    header.size, header.type = 2**60, kind
    for path, content in ((tmp_path / "a.tar", header.tobuf()), (tmp_path / "a.tgz", gzip.compress(header.tobuf()))):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is not a readable archive"):
            open_sources([path])


def test_an_archive_with_links_only_has_no_files(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("passwd")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(InputError, match="an archive without files"):
        open_sources([path])


def test_missing_files_and_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_sources([tmp_path / "none.log"])
    with pytest.raises(InputError, match="is a directory"):
        open_sources([tmp_path])
    with pytest.raises(InputError, match="is not a file"):
        open_sources(["/dev/null"])


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=20), max_size=8))
def test_lines_are_numbered_from_one_and_have_no_ends(rows: list[str]) -> None:
    for end in ("\n", "\r\n"):
        text = "".join(row + end for row in rows)
        assert list(lines(text_source("t", text))) == list(enumerate(rows, start=1))


def test_a_line_that_is_too_long_is_refused_or_cut() -> None:
    source = text_source("t", "short\n" + "x" * 100_000 + "\nshort\n")
    with pytest.raises(InputError, match=r"^t: line 2: the line is longer than 1000 bytes$"):
        list(lines(source, limit=1000))
    assert list(lines(source, limit=1000, cut=True)) == [(1, "short"), (2, "x" * 1000), (3, "short")]


def test_bytes_that_are_no_text_do_not_stop_a_reader(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"a\xff\xfeb\nc\n")
    assert list(lines(open_sources([path])[0])) == [(1, "a��b"), (2, "c")]


@pytest.mark.parametrize("form", ["file", "archive of compressed files", "compressed archive"])
def test_compressed_data_that_hold_far_more_than_logs_do_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(streams, "FREE_GROWTH", 1 << 20)
    zeros = bytes(30 << 20)
    packed = {
        "file": gzip.compress(zeros),
        "archive of compressed files": _tar([b"x", zeros], "w", compress_members=True),
        "compressed archive": _tar([b"x", zeros], "w:gz"),
    }[form]
    file = tmp_path / "trace"
    file.write_bytes(packed)
    with pytest.raises(InputError, match=r"trace.*: \d+ compressed bytes hold at least \d+, and at most 300 times"):
        [_read(source) for source in open_sources([file])]


@settings(deadline=None, max_examples=examples(10, 60))
@given(lines_of=st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=50), times=st.integers(1, 400))
def test_logs_of_repeated_lines_are_read(
    tmp_path_factory: pytest.TempPathFactory, lines_of: list[str], times: int
) -> None:
    content = "\n".join(lines_of * times).encode("utf-8", "replace")
    file = tmp_path_factory.mktemp("log") / "log.gz"
    file.write_bytes(gzip.compress(content))
    (source,) = open_sources([file])
    assert _read(source) == content
