"""The dashboard's files: all there, consistent with each other, and nothing from elsewhere."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import controller.web
from controller.rest.events import HEARTBEAT_SECONDS
from controller.web.assets import FOLDER, TYPES, asset, assets

STATIC = Path(controller.web.__file__).parent / "static"
TEXTS = {path: one.body.decode() for path, one in assets().items()}


def test_every_file_is_served_under_a_path_of_its_own_as_what_it_is() -> None:
    assert len(assets()) == len(list(STATIC.iterdir()))
    for path, one in assets().items():
        name = "index.html" if path == "/" else path.removeprefix(FOLDER)
        assert one.body == (STATIC / name).read_bytes()
        assert one.media_type == TYPES[Path(name).suffix]
        assert gzip.decompress(one.zipped) == one.body
    tags = [tag for one in assets().values() for tag in (one.etag, one.zipped_etag)]
    assert len(set(tags)) == len(tags)


def test_a_tag_belongs_to_the_content_and_a_stranger_is_refused() -> None:
    one, same, other = asset("a.js", b"x"), asset("b.js", b"x"), asset("a.js", b"y")
    assert (one.etag, one.zipped) == (same.etag, same.zipped)
    assert one.etag != other.etag
    with pytest.raises(KeyError):
        asset("program.exe", b"")


@pytest.mark.parametrize("path", TEXTS)
def test_a_file_names_only_files_that_are_there_and_no_other_address(path: str) -> None:
    text = TEXTS[path]
    named = re.findall(r'from "\./([^"]+)"', text) + re.findall(r'"web/([^"]+)"', text)
    assert {FOLDER + name for name in named} <= set(TEXTS)
    addresses = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text))
    assert addresses <= {"http://www.w3.org"}, "SVG's namespace is a name, not an address"


def test_every_module_is_reached_from_the_page() -> None:
    reached, waiting = set(), ["/"]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            found = re.findall(r'from "\./([^"]+)"|"web/([^"]+)"', TEXTS[path])
            waiting += [FOLDER + (module or file) for module, file in found]
    assert reached == set(TEXTS)


@pytest.mark.parametrize("path", [path for path in TEXTS if path.endswith((".js", "/"))])
def test_no_text_can_become_markup_or_code(path: str) -> None:
    for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", " style="):
        assert danger not in TEXTS[path]
    assert not re.search(r"<[^>]+\son[a-z]+=", TEXTS["/"])


@pytest.mark.parametrize("path", [path for path in TEXTS if path.endswith(".js")])
def test_every_element_that_a_module_asks_for_is_on_the_page(path: str) -> None:
    for name in re.findall(r'byId\("([^"]+)"\)', TEXTS[path]):
        assert f'id="{name}"' in TEXTS["/"], name


def test_the_page_tells_within_five_seconds_that_heartbeats_have_stopped() -> None:
    (silence,) = re.findall(r"const SILENCE_MS = ([\d_]+);", TEXTS["/web/api.js"])
    # One heartbeat may be late by almost another.
    assert 2 * HEARTBEAT_SECONDS < float(silence) / 1000 < 5
