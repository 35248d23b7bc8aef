"""The rogue switch's grammar: what it draws is what Ryu's own parser reads, and the seed decides every byte."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser
from ryu.ofproto.ofproto_parser import header

from tests import openflow_writer as writer
from tests.campaigns.attacks import messages, multipart
from tests.campaigns.attacks.messages import BODY
from tests.campaigns.attacks.mutate import mutated, stream
from tests.campaigns.attacks.piece import MessagePart
from tests.fake_switch.decode import PROTOCOL
from tests.unit.laws import examples

SEEDS = st.integers(0, 2**64 - 1)
KINDS = st.sampled_from(sorted(BODY))


def read(data: bytes) -> Any:
    """A message as Ryu reads it. Called without its wrapper, which hides what its parser raises."""
    version, kind, length, xid = header(data)
    assert length == len(data)
    return parser._MSG_PARSERS[kind](PROTOCOL, version, kind, length, xid, bytearray(data))


def beyond_ryu(data: bytes) -> bool:
    """Whether a message is valid and Ryu's parser cannot read it.

    It takes the padding behind a HELLO element for the next element (and never gets past it), and what an
    experimenter's multipart reply has beyond 16 bytes for another reply.
    """
    if data[1] == writer.HELLO:
        at = 8
        while at < len(data):
            length = int.from_bytes(data[at + 2 : at + 4], "big")
            if length % 8:
                return True
            at += length
    return data[1] == writer.MULTIPART_REPLY and data[8:10] == b"\xff\xff" and len(data) > 32


@settings(max_examples=examples(75, 450))
@given(SEEDS, KINDS)
def test_what_the_grammar_draws_is_read_by_ryus_parser(seed: int, kind: int) -> None:
    made = messages.draw(random.Random(seed), kind)
    assume(not beyond_ryu(made.data))
    assert read(made.data).msg_type == kind


@given(SEEDS, st.sampled_from(sorted(multipart.ENTRY)), st.integers(1, 5))
def test_ryu_finds_as_many_entries_in_a_reply_as_were_drawn(seed: int, kind: int, entries: int) -> None:
    body = multipart.body(random.Random(seed), kind, entries=entries)
    reply = messages.message(writer.MULTIPART_REPLY, MessagePart(bytes(2)) + MessagePart(bytes(6)) + body, 1)
    data = reply.data[:8] + kind.to_bytes(2, "big") + reply.data[10:]
    assume(not beyond_ryu(data))
    found = read(data).body
    assert (len(found) if isinstance(found, list) else 1) == (1 if kind in multipart.SINGLE else entries)


@given(SEEDS, KINDS)
def test_every_length_that_a_message_notes_is_true(seed: int, kind: int) -> None:
    made = messages.draw(random.Random(seed), kind)
    assert made.value(made.fields[0]) == len(made)
    for field in made.fields:
        assert 0 <= made.value(field) <= len(made)


@given(SEEDS)
def test_the_same_seed_makes_the_same_bytes(seed: int) -> None:
    def drawn() -> bytes:
        rng = random.Random(seed)
        return stream(rng, [messages.draw(rng) for _ in range(5)])

    assert drawn() == drawn()


@given(SEEDS)
def test_whole_messages_are_taken_off_a_stream_and_the_rest_is_kept(seed: int) -> None:
    rng = random.Random(seed)
    parts = [messages.draw(rng).data for _ in range(4)]
    cut = rng.randrange(len(parts[-1]))
    found, rest = writer.split(b"".join(parts[:-1]) + parts[-1][:cut])
    assert (found, rest) == (parts[:-1], parts[-1][:cut])


def test_every_type_that_a_switch_can_send_is_drawn() -> None:
    rng = random.Random(1)
    assert {messages.draw(rng).data[1] for _ in range(2000)} == set(BODY)
    expected = {
        getattr(ofp, name)
        for name in dir(ofp)
        if name.startswith("OFPT_") and ("REPLY" in name or name.endswith(("HELLO", "ERROR", "REMOVED", "STATUS")))
    }
    assert expected <= set(BODY)


def test_every_type_of_multipart_reply_is_drawn() -> None:
    expected = {getattr(ofp, name) for name in dir(ofp) if name.startswith("OFPMP_")} - {ofp.OFPMP_EXPERIMENTER}
    assert expected | {0xFFFF} == set(multipart.ENTRY)


@pytest.mark.parametrize("length", [0, 1, 0xFFFF])
def test_mutated_messages_have_wrong_lengths_inside_and_are_still_framed(length: int) -> None:
    """The lengths of nested structures that a parser must survive are all drawn, for a flow entry as for a HELLO."""
    rng = random.Random(2)
    seen = set()
    for _ in range(1500):
        made = messages.draw(rng, writer.MULTIPART_REPLY)
        data = mutated(rng, made, made)
        if len(data) == len(made) and data[2:4] == made.data[2:4]:
            seen |= {int.from_bytes(data[f.at : f.at + f.size], "big") for f in made.fields[1:]}
    assert length in seen


@given(SEEDS)
def test_mutators_never_raise_and_never_make_more_than_the_wire_can_frame(seed: int) -> None:
    rng = random.Random(seed)
    made, other = messages.draw(rng), messages.draw(rng)
    data = mutated(rng, made, other)
    assert writer.HEADER.size <= len(data) <= writer.LONGEST
