"""``fairspine status``: the state of a running controller on one screen, and as an exit code."""

from __future__ import annotations

from controller.cli.command_error import CommandError
from controller.cli.output import Printer
from controller.cli.remote import Remote
from controller.cli.top import LinksOption, document_of, look_at, print_look
from controller.cli.watch import Watch


def status(
    count: LinksOption = None,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show the health, the switches, the plan, the jobs and the busiest links on one screen.

    Exits 1 unless the health is ok; degraded service is shown and is no fault.
    """
    client = remote.client()

    def show() -> None:
        look = look_at(client, None)
        if output.is_table:
            print_look(output, look, count)
        else:
            output.document(document_of(look))
        if look.health["status"] != "ok":
            first = next(iter(look.health["reasons"]), "no switch has confirmed the newest plan yet")
            raise CommandError(f"the health is {look.health['status']}: {first}")

    watch.show(show)
