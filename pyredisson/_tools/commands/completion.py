"""``pyredisson completion``: its arguments."""

from __future__ import annotations

import click

from pyredisson._tools.completion import SHELLS


@click.command(short_help="Print the script that completes commands in a shell.")
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
    from pyredisson._tools.cli import cli
    from pyredisson._tools.completion import completion_script

    click.echo(completion_script(shell, cli), nl=False)
