"""The meters of one switch: made before the rules that use them, where it has meters and takes ours."""

from __future__ import annotations

from collections.abc import Sequence

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.forwarding.leaf_guards import METERS
from controller.southbound.limits.quiet_log import QuietLog
from controller.southbound.openflow.enforcing import messages, refusals
from controller.southbound.openflow.enforcing.request_channel import NotSupported, Refused, RequestChannel
from controller.southbound.rules.rule import Rule
from controller.southbound.wire import meter_bytes

UNSUPPORTED = frozenset({ofp.OFPET_METER_MOD_FAILED, ofp.OFPET_BAD_INSTRUCTION})
"""Types of the errors with which a switch refuses a rule for its meter."""


class Meters:
    """The known meters of one switch.

    Args:
        wanted: whether it gets some at all.
        quiet: the log.

    Attributes:
        usable: whether rules may use them.
    """

    def __init__(self, wanted: bool, quiet: QuietLog) -> None:
        """Begin unprepared; ``prepare`` asks the switch."""
        self._wanted, self.usable, self._quiet = wanted, False, quiet
        self._has: bool | None = None
        self._doubted = False

    def prepare(self, exchange: RequestChannel) -> None:
        """Ask for the switch's meters and capabilities, and make those that are missing or different.

        Blocks the calling greenlet.

        Raises:
            SwitchGone: no answer.
        """
        self.usable = False
        if not self._wanted or self._has is False:
            return
        try:
            if self._has is None:
                features = exchange.ask_raw(messages.read_meter_features(exchange.datapath))
                self._has = meter_bytes.can_count_packets(features)
            if not self._has:
                return
            held = meter_bytes.ours(exchange.ask_raw(messages.read_meters(exchange.datapath)))
        except (NotSupported, ValueError):
            self._has = False
            return
        missing = [meter for number, meter in METERS.items() if held.get(number) != meter]
        exchange.send_templates([meter_bytes.put_meter(meter, replaces=meter.id in held) for meter in missing], missing)
        refused = exchange.settle() if missing else []
        self._has = self.usable = not refused
        if refused:
            text = refusals.describe(refused[0].error)
            dpid = exchange.datapath.id
            self._quiet.warning(
                (dpid, "meters"), "switch %#x refuses meters: %s; it gets rules without meters", dpid, text
            )

    def given_up(self, name: str, refused: Sequence[Refused]) -> bool:
        """Return whether some rules were refused for their meters.

        The switch is to be read again, which makes meters that another program has removed; the second time its rules
        go
        without.
        """
        if not self.usable:
            return False
        for each in refused:
            what = getattr(each.cause, "what", None)
            if isinstance(what, Rule) and what.meter is not None and each.error.type in UNSUPPORTED:
                if self._doubted:
                    self._has = False
                    text = refusals.describe(each.error)
                    self._quiet.warning(
                        (name, "metered"), "%s refuses rules with meters: %s; it gets rules without meters", name, text
                    )
                self._doubted, self.usable = True, False
                return True
        return False
