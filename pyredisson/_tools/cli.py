"""The ``pyredisson`` command, and how shells complete it. Each of its commands is in a module of its name, or in one of
``MODULES``. That is imported when the command is called, so that ``pyredisson run`` starts fast.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click
from click import shell_completion as shells
from click.shell_completion import CompletionItem

from pyredisson import __version__

#: The commands, in the order of the help, by what they are for.
GROUPS = {
    "Look": {
        "ls": "List locks, who holds them and who waits.",
        "show": "Show one lock: its holder, lease, queue and keys.",
        "why": "Say why a lock is not free; find deadlocks.",
        "watch": "Show what happens to locks, as it happens.",
        "top": "Show the busiest locks, once a second.",
        "web": "Show the locks of a server in a browser, live.",
        "clients": "List the clients, and how much they hold.",
        "leaks": "Find locks that no one will release.",
        "doctor": "Inspect the servers that locks are kept on.",
    },
    "Act": {
        "run": "Run a command while a lock is held.",
        "lock": "Hold a lock by hand for a time.",
        "unlock": "Free a lock whose holder is stuck or gone.",
        "permits": "Show how many permits a semaphore has, or set their number.",
    },
    "Export": {"metrics": "Export metrics of a server's locks to Prometheus."},
    "Try": {
        "demo": "Sell seats with and without the lock.",
        "completion": "Print the script that completes commands in a shell.",
    },
}
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}

#: Where a command is that has no module of its own.
MODULES = {
    **dict.fromkeys(("ls", "clients", "leaks", "show", "why"), "reports"),
    **dict.fromkeys(("lock", "unlock", "permits"), "by_hand"),
    "completion": "cli",
}


class Commands(click.Group):
    """A group that imports a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or ``None`` if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"pyredisson._tools.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        command.short_help = COMMANDS[cmd_name]
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Its output may end early, as behind ``head``: that is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            from pyredisson._tools.common import without_reader

            sys.exit(without_reader())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what they are for."""
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                # Padded, so that the columns of all groups begin alike.
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command."""
        items = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="pyredisson")
def cli() -> None:
    """Redisson's distributed locks, from the command line."""


@cli.result_callback()
def end(code: int | None) -> None:
    """End with the exit code that a command returned."""
    sys.exit(code)


# ---- completion ------------------------------------------------------------------------------------------------------
# Completion by the shell: of commands and options, which click knows. Names of locks are looked up in ``common.py``.


SHELLS = ("bash", "zsh", "fish")


class Bash(shells.BashComplete):
    """click's completion for bash, for names that contain what bash takes for a separator or for its own.

    Bash splits words at colons, as in ``order:17``, and completes the part after the last one. It inserts a completion
    as it is: a name with a space, a quote or a ``;`` has to be quoted, in the way in which the user has begun to. Words
    in quotes are not split.
    """

    def source(self) -> str:
        """Return the script for bash."""
        from importlib.resources import files

        script = (files("pyredisson._tools") / "completion.bash").read_text(encoding="utf-8")
        return script % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one at it."""
        # With a mark at its end, the last word is the incomplete one, also after a space, an escape or a quote.
        words = shells.split_arg_string(os.environ["COMP_LINE"] + ".")
        return words[1:-1], words[-1][:-1]


class Fish(shells.FishComplete):
    """click's completion for fish, for names with a comma."""

    source_template = shells.FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def register() -> None:
    """Let the command line use our completion for bash and fish."""
    shells.add_completion_class(Bash)
    shells.add_completion_class(Fish)


def completion_script(shell: str, cli: click.Command) -> str:
    """Return the script that makes a shell complete ``pyredisson``."""
    register()
    kind: type[shells.ShellComplete] | None = shells.get_completion_class(shell)
    assert kind is not None
    return kind(cli, {}, "pyredisson", "_PYREDISSON_COMPLETE").source()


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, and the names of locks that are held.

    \b
        pyredisson completion bash >> ~/.bashrc
        pyredisson completion zsh >> ~/.zshrc
        pyredisson completion fish > ~/.config/fish/completions/pyredisson.fish

    Names are looked up on the server of --url, if that was typed before, or PYREDISSON_URL: for half a second at most,
    and silently if it does not answer. The script for bash needs bash 4.4 or newer; that for zsh, compinit.
    """
    click.echo(completion_script(shell, click.get_current_context().find_root().command), nl=False)


if "_PYREDISSON_COMPLETE" in os.environ:  # A shell asks: see ``pyredisson completion``.
    register()

# Their names alone: click compares a name that was mistyped with these.
cli.commands = {name: click.Command(name) for name in COMMANDS}
