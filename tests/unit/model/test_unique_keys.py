"""A duplicate key in an object is refused with its path, for any other content of the document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.fabric_file import LARGE_FILE, read_document
from controller.model.files.unique_keys import check_unique, json_document

TEXT = st.text(st.sampled_from('ab:"\\{}[],\n\u00e9\u2028'), max_size=6)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=30,
)


def check(text: str | bytes) -> None:
    """As a request's body, and as a file."""
    body = text.encode() if isinstance(text, str) else text
    caught = []
    for read in (lambda: check_unique(body, orjson.loads(body)), lambda: json_document(body)):
        try:
            read()
            caught.append("")
        except InputError as error:
            caught.append(f"{error.field}: {error.reason}")
    assert caught[0] == caught[1]
    if caught[0]:
        raise InputError(caught[0])


@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 1]))
def test_what_has_each_key_once_passes_however_it_is_written(document: Any, ascii: bool, indent: int | None) -> None:
    check(json.dumps(document, ensure_ascii=ascii, indent=indent))


@given(st.dictionaries(TEXT, DOCUMENTS, min_size=1, max_size=4), st.data())
def test_one_key_more_is_noticed_whatever_it_holds(document: dict[str, Any], data: st.DataObject) -> None:
    again = data.draw(st.sampled_from(sorted(document)))
    pairs = [*document.items(), (again, data.draw(DOCUMENTS))]
    text = "{" + ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in pairs) + "}"
    around = data.draw(st.sampled_from(["%s", "[%s]", '{"outer": [0, %s]}']))
    with pytest.raises(InputError, match="twice"):
        check(around.replace("%s", text))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"name": "a", "name": "b"}', "name"),
        ('{"flows": [{"src": 1}, {"src": 1, "dst": 2, "src": 3}]}', "flows[1].src"),
        (r'{"a": {"\u0062": 1, "b": 2}}', "a.b"),
        ('[[{"a": 1, "a": 1}]]', "[0][0].a"),
        ('{"a": {"b": 1, "b": 2}, "a": 0}', "a"),
        ('{"": 1, "": 2}', ""),
    ],
)
def test_the_path_of_the_key_is_reported(text: str, path: str) -> None:
    with pytest.raises(InputError, match="this key occurs twice") as caught:
        check_unique(text.encode(), orjson.loads(text))
    assert caught.value.field == path


@pytest.mark.parametrize("value", [":", r"\u003a", r"\u003A:", r"\\u003a", r"\\\u003a", r"\":\""])
def test_colons_in_strings_do_not_hide_a_key(value: str) -> None:
    pairs = ", ".join(f'"k{value}{i}": "{value * 4}"' for i in range(80))
    check(f"{{{pairs}}}")
    for more in ("0", f'"{value}"', '{"a": ":"}'):
        with pytest.raises(InputError, match="twice"):
            check(f'{{{pairs}, "k{value}7": {more}}}')


def test_deep_documents_are_checked_too() -> None:
    deep = b'{"a": ' * 900 + b'{"b": 1}' + b"}" * 900
    check_unique(deep, orjson.loads(deep))
    with pytest.raises(InputError, match="twice"):
        check_unique(deep.replace(b'"b": 1', b'"b": 1, "b": 1'), orjson.loads(deep))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("long.json", f'{{"a": [{"0, " * LARGE_FILE}0], "b": [{{"c": 1, "c": 2}}]}}', "b[0].c: this key occurs twice"),
        ("f.json", '{"clos": {"spines": 2, "spines": 3}}', "clos.spines: this key occurs twice"),
        ("f.yaml", "clos:\n  spines: 2\n  leaves: 2\n  spines: 3\n", "clos.spines: this key occurs twice (line 4)"),
        ("f.yaml", "a: [{b: 1}, {b: 1, 'b': 2}]\n", "a[1].b: this key occurs twice (line 1)"),
    ],
)
def test_files_are_refused_in_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_document(file)
    assert str(caught.value) == f"{file}: {said}"


def test_merged_keys_may_be_given_anew(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("a: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: *b, y: 4}\n")
    assert read_document(file) == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 3, "y": 4}}
