"""Completion by the shell: of commands and options, which click knows, and of the names of locks, which a server knows.

A shell waits while we look, and shows whatever we write. So the look has a bound in time and number, it is silent when
it fails, and names that could move the terminal are left out.
"""

from __future__ import annotations

import os
import threading
import time
from importlib.resources import files
from typing import ClassVar, final

import click
from click import shell_completion as shells
from click.shell_completion import CompletionItem

from pyredisson._net.urls import DEFAULT_URL

SHELLS = ("bash", "zsh", "fish")

SECONDS = 0.5
MOST = 200  # names: more than that are not read

_INTERNAL = ("redisson_", "pyredisson_", "{redisson_", "{pyredisson_")


@final
class Bash(shells.BashComplete):
    """click's completion for bash, for names that contain what bash takes for a separator or for its own.

    Bash splits words at colons, as in ``order:17``, and completes the part after the last one. It inserts a completion
    as it is: a name with a space, a quote or a ``;`` has to be quoted, in the way in which the user has begun to. Words
    in quotes are not split.
    """

    source_template: ClassVar[str] = (files("pyredisson._tools") / "completion.bash").read_text(encoding="utf-8")

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one at it."""
        # With a mark at its end, the last word is the incomplete one, also after a space, an escape or a quote.
        words = shells.split_arg_string(os.environ["COMP_LINE"] + ".")
        return words[1:-1], words[-1][:-1]


@final
class Fish(shells.FishComplete):
    """click's completion for fish, for names with a comma."""

    source_template: ClassVar[str] = shells.FishComplete.source_template.replace(
        'string split ","', 'string split --max 1 ","'
    )


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


def complete_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the names of locks that begin with what was typed; none if the server does not answer in time."""
    url = context.params.get("url") or os.environ.get("PYREDISSON_URL", DEFAULT_URL)
    prefix = context.params.get("prefix") or ""
    found: list[str] = []

    import pyredisson.inspection  # noqa: F401  # Now: the time below is the server's.

    def look() -> None:
        try:
            lock_names(url if isinstance(url, str) else url[0], prefix + incomplete, found)
        except Exception:  # Whatever it is: there is no place to say it.
            pass

    # A thread, so that no server and no resolver of names can make the shell wait.
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(SECONDS)
    return [CompletionItem(name.removeprefix(prefix)) for name in sorted(found[:MOST])]


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def lock_names(url: str, prefix: str, found: list[str]) -> None:
    """Add the names of locks that are held to ``found``, by a search that has a bound in time and number."""
    from pyredisson.inspection import DOUBTFUL, Inspector

    ends = time.monotonic() + SECONDS
    doubtful: list[str] = []  # Strings that may be locks or data.
    with Inspector(url, prefix=prefix, timeout=SECONDS) as inspector:
        for lock in inspector.locks(seconds=SECONDS):
            name = prefix + lock.name
            if lock.held and name.isprintable() and not name.startswith(_INTERNAL):
                (doubtful if DOUBTFUL in lock.notes else found).append(name)
            if len(found) >= MOST or time.monotonic() > ends:
                break
    if len(doubtful) <= MOST:
        found += doubtful


# ---- completion ------------------------------------------------------------------------------------------------------
# ``pyredisson completion``: its arguments.


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
