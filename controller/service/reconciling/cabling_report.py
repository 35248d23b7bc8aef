"""Log lines and events about the cabling check, few enough to read."""

from __future__ import annotations

import logging

from controller.southbound.cabling.findings import ABOUT_HOSTS, EXTRA_SWITCH, Finding
from controller.southbound.cabling.survey import Survey
from controller.southbound.limits.quiet_log import QuietLog

LOG = logging.getLogger("fairspine.service")

CLASH_LINES = 30
"""Log lines and events in a minute about claims to hosts' addresses."""

STRANGER_LINES = 30
"""Log lines in a minute about switches that are not in the fabric file (any client may connect with any datapath id)"""

LINES = 100
"""Most findings that are logged at once, one line each."""


class CablingReport:
    """Logs what is new in the cabling check."""

    def __init__(self, intended: bool) -> None:
        """Begin with no findings; ``intended``: whether a fabric file gives the cabling."""
        self._well = "as intended" if intended else "discovered without differences"
        self._reported = Survey(None, ())
        self._known: frozenset[Finding] = frozenset()
        self._quiet = QuietLog(LOG, most_lines=CLASH_LINES)
        self._quiet_strangers = QuietLog(LOG, most_lines=STRANGER_LINES)

    def report(self, survey: Survey) -> list[Finding]:
        """Log the newest findings; return those to be published as events: new ones about hosts' addresses.

        Any packet of a host can cause those, so only a few a minute are published.
        """
        for_events: list[Finding] = []
        if survey.findings != self._reported.findings:
            new = [finding for finding in survey.findings if finding not in self._known]
            cables = [finding for finding in new if finding.kind not in (*ABOUT_HOSTS, EXTRA_SWITCH)]
            for finding in cables[:LINES]:
                LOG.warning("cabling: %s", finding.text)
            if len(cables) > LINES:
                LOG.warning("cabling: %d more findings are listed in /v1/fabric", len(cables) - LINES)
            for finding in new:
                if finding.kind == EXTRA_SWITCH:
                    self._quiet_strangers.warning(finding.subject, "cabling: %s", finding.text)
                about_host = finding.kind in ABOUT_HOSTS
                if about_host and self._quiet.warning((finding.kind, finding.subject), "cabling: %s", finding.text):
                    for_events.append(finding)
            self._known = frozenset(survey.findings)
        if survey.matches and not self._reported.matches:
            LOG.info("cabling: %s", self._well)
        self._reported = survey
        return for_events
