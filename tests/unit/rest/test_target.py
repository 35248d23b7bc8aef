"""Request targets have one normal form."""

from __future__ import annotations

from urllib.parse import quote, unquote

from hypothesis import given
from hypothesis import strategies as st

from controller.rest.serving.target import split_target

LATIN_1 = st.text(st.characters(max_codepoint=255), max_size=60)


@given(LATIN_1)
def test_the_normal_form_is_ascii_and_its_own_normal_form(target: str) -> None:
    path, query = split_target(target)
    assert path.isascii()
    assert query.isascii()
    assert split_target(path)[0] == path


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_an_encoded_segment_decodes_to_what_was_meant(segment: str) -> None:
    path, _ = split_target("/v1/jobs/" + quote(segment, safe=""))
    assert path.count("/") == 3
    assert unquote(path.split("/")[3]) == segment


def test_every_spelling_of_a_path_is_the_same_path() -> None:
    spellings = ("/v1/jobs/a%2fb", "/%76%31/jobs/%61%2Fb", "http://c:8080/v1/jobs/a%2Fb", "HTTPS://c/v1/jobs/a%2fb")
    assert {split_target(spelling)[0] for spelling in spellings} == {"/v1/jobs/a%2Fb"}


def test_the_query_is_what_follows_the_first_question_mark() -> None:
    assert split_target("/v1/routes?host=h1?&x=/") == ("/v1/routes", "host=h1?&x=/")
    assert split_target("http://c?a=b") == ("/", "a=b")
