"""``fairspine status``: the state of a running controller on one screen, and as an exit code."""

from __future__ import annotations

from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.live.top import LinksOption, document_of, look_at, print_look
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.output import Printer


def status(
    count: LinksOption = None,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show the health, the switches, the plan, the jobs and the busiest links on one screen."""
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
        slowest = look.health["slowest_job"]
        if slowest["speed"] == 0:
            raise CommandError(f"job {slowest['job']} stands still: some of its flows cannot arrive")

    watch.show(show)
