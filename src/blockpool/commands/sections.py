"""Help in which options stand under headings, for commands that have many."""

from __future__ import annotations

from collections.abc import Sequence

import click

OTHER_OPTIONS = "Options"


class SectionedCommand(click.Command):
    """A command whose options are listed by section; a subclass names the sections and the options in each.

    Attributes:
        sections: Heading and names of the parameters, in the order of the help. All others come last.
    """

    sections: Sequence[tuple[str, Sequence[str]]] = ()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the sections."""
        records = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                records[parameter.name] = record
        for heading, names in self.sections:
            rows = [records.pop(name) for name in names]
            with formatter.section(heading):
                formatter.write_dl(rows)
        with formatter.section(OTHER_OPTIONS):
            formatter.write_dl(list(records.values()))
