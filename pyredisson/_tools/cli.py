"""The ``pyredisson`` command. Its commands are in :mod:`pyredisson._tools.commands`, one module each.

Each is imported when it is called, so that ``pyredisson run`` starts fast.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import final

import click

from pyredisson import __version__

#: The commands, in the order of the help. What a command needs is imported when it runs.
GROUPS = {
    "Look": ("ls", "show", "why", "watch", "top", "web", "clients", "leaks", "doctor"),
    "Act": ("run", "lock", "unlock", "permits"),
    "Export": ("metrics",),
    "Try": ("demo", "completion"),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)


@final
class Commands(click.Group):
    """A group that imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or ``None`` if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"pyredisson._tools.commands.{cmd_name}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Its output may end early, as behind ``head``: that is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            from pyredisson._tools.output import without_reader

            sys.exit(without_reader())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what they are for."""
        width = max(map(len, COMMANDS))
        for title, names in GROUPS.items():
            found = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
            with formatter.section(title):
                # Padded, so that the columns of all groups begin alike.
                formatter.write_dl([(f"{name:<{width}}", command.get_short_help_str(80)) for name, command in found])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pyredisson")
def cli() -> None:
    """Redisson's distributed locks, from the command line."""


@cli.result_callback()
def end(code: int | None) -> None:
    """End with the exit code that a command returned."""
    sys.exit(code)


if "_PYREDISSON_COMPLETE" in os.environ:  # A shell asks: see ``pyredisson completion``.
    from pyredisson._tools.completion import register

    register()

# Their names alone: click compares a name that was mistyped with these.
cli.commands = {name: click.Command(name) for name in COMMANDS}
