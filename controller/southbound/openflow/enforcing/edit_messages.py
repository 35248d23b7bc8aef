"""Changes of a switch's rules as messages, encoded without Ryu's objects wherever that is possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.openflow.enforcing import messages
from controller.southbound.rollout.update import RemoveFirst, RuleEdit, Stage, SwitchUpdate, work
from controller.southbound.rules.rule import Rule
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire import rule_bytes
from controller.southbound.wire.rule_bytes import Encoder, Template, UnknownFormError

MANY = 64
"""Number of changes from which on they are encoded when their turn comes: a large plan at once would take memory."""

_encoder = Encoder()


class _Protocol:
    """Ryu's messages want a datapath; of it, encoding needs these two."""

    ofproto, ofproto_parser = ofp, parser


def encoded(edits: Iterable[RuleEdit], epoch: int) -> list[Template]:
    """Return the message of each change. May run off the event loop."""
    known = _encoder.known(epoch)
    # Nearly all rules of a switch are those of other switches, too.
    return [
        kept[1] if edit.put and (kept := known.get(id(edit.what))) is not None else _encoded(edit, epoch)
        for edit in edits
    ]


class EncodedUpdate(NamedTuple):
    """One switch's part in an update, and the messages of its short steps, by stage and position."""

    todo: SwitchUpdate
    messages: Mapping[tuple[Stage, int], list[Template]]


def encoded_work(
    held: SwitchRules,
    want: SwitchRules,
    ports: frozenset[int],
    first: RemoveFirst,
    *,
    meters: bool,
    port_masks: bool,
    epoch: int,
) -> EncodedUpdate:
    """Return ``update.work`` with messages; runs off the event loop, which would encode them for all switches at once.

    Args:
        held: as in ``update.work``, and so are the others.
        want: see there.
        ports: see there.
        first: see there.
        meters: see there.
        port_masks: see there.
        epoch: what the cookies of the rules carry.
    """
    todo = work(held, want, ports, first, meters=meters, port_masks=port_masks)
    steps = {(stage, at): step for stage, steps in todo.stages.items() for at, step in enumerate(steps)}
    return EncodedUpdate(todo, {key: encoded(step, epoch) for key, step in steps.items() if len(step) < MANY})


def _encoded(edit: RuleEdit, epoch: int) -> Template:
    what = edit.what
    try:
        if isinstance(what, Rule):
            return _encoder.put(what, epoch) if edit.put else rule_bytes.remove_rule(what)
        if edit.put:
            return rule_bytes.put_group(what, replaces=edit.replaces)
        return rule_bytes.remove_group(what)
    except UnknownFormError:
        # A form that only Ryu can write: a rule of another program under our cookie, which is removed.
        return by_ryu(_message(edit, epoch))


def by_ryu(message: Any) -> Template:
    """Return a message of Ryu's."""
    message.set_xid(0)
    message.serialize()
    return Template(bytes(message.buf[:4]), bytes(message.buf[8:]))


def _message(edit: RuleEdit, epoch: int) -> Any:
    what = edit.what
    if isinstance(what, Rule):
        return messages.put_rule(_Protocol, what, epoch) if edit.put else messages.remove_rule(_Protocol, what)
    if edit.put:
        return messages.put_group(_Protocol, what, replaces=edit.replaces)
    return messages.remove_group(_Protocol, what)
