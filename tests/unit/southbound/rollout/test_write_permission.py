"""What changes a switch is sent with the permission to do so only; requests need none."""

from __future__ import annotations

from types import SimpleNamespace

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from ryu.ofproto import ofproto_v1_3  # noqa: E402

from controller.southbound.openflow.enforcing import request_channel  # noqa: E402
from controller.southbound.openflow.enforcing.request_channel import NotPermitted, RequestChannel  # noqa: E402
from controller.southbound.rollout.write_permission import WritePermission  # noqa: E402
from controller.southbound.wire.rule_bytes import Template  # noqa: E402

HEAD = b"\x04\x0e\x00\x08"


class Wire:
    """A connection that takes everything, and on which the permission is withheld after some writes."""

    ofproto = ofproto_v1_3

    def __init__(self, permission: WritePermission, writes: int) -> None:
        self.xid, self.sent = 0, list[bytes]()
        self._permission, self._writes = permission, writes
        self.see()

    def see(self) -> None:
        self._permission.withheld = "" if len(self.sent) < self._writes else "taken over"

    def send(self, data: bytes) -> bool:
        self.sent.append(data)
        self.see()
        return True


@given(st.integers(0, 8), st.integers(1, 6))
def test_no_change_is_sent_after_the_permission_is_withheld(writes: int, changes: int) -> None:
    permission = WritePermission()
    wire = Wire(permission, writes)
    with pytest.MonkeyPatch.context() as patch:
        # Each change is a write of its own.
        patch.setattr(request_channel, "BATCH_BYTES", 1)
        channel = RequestChannel(wire, permission=permission)
        templates = [Template(HEAD, bytes([number])) for number in range(changes)]
        if changes >= writes:
            with pytest.raises(NotPermitted, match="taken over"):
                channel.send_templates(templates, templates)
        else:
            channel.send_templates(templates, templates)
    assert [data[-1] for data in wire.sent if data] == list(range(min(writes, changes)))


def test_a_switch_is_read_without_the_permission() -> None:
    permission = WritePermission()
    wire = Wire(permission, 0)
    channel = RequestChannel(wire, permission=permission)
    channel._write([SimpleNamespace(serialize=lambda: None, buf=b"read")])
    assert wire.sent == [b"read"]
