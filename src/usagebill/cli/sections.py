"""How commands are listed: in sections, with summaries that fit in a line of 80 characters, and long ones in brief."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import click

_ALL = "usagebill.help_all"


class SectionedGroup(click.Group):
    """A group whose help lists its commands by section."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sections: dict[str, list[str]] = {}

    def add_sections(self, sections: Mapping[str, Sequence[click.Command]]) -> None:
        """Add commands in the order of their sections."""
        for title, commands in sections.items():
            for command in commands:
                self.add_command(command)
                self.sections.setdefault(title, []).append(str(command.name))

    def add_former(self, command: click.Command, name: str) -> None:
        """Let the command answer to a former name too, unlisted."""
        former = copy.copy(command)
        former.hidden = True
        self.add_command(former, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for names in self.sections.values() for name in names)
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), self.commands[name].get_short_help_str(1000).rstrip(".")) for name in names]
                )


class BriefCommand(click.Command):
    """A command with many options: `--help` shows the `essential` ones, `--help-all` every one."""

    def __init__(self, *args: Any, essential: Sequence[str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.essential = frozenset(essential)
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help=f"Show all {len(self.params)} options and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The last two are --help-all and --help.
        *params, help_all, shown_help = self.get_params(ctx)
        if _ALL not in ctx.meta:
            params = [param for param in params if param.name in self.essential]
        records = [param.get_help_record(ctx) for param in (*params, help_all, shown_help)]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
