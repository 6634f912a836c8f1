"""How the documentation is built: ``sphinx-build -W --keep-going -b html docs docs/_build/html``."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import pyredisson

project = "pyredisson"
author = "the pyredisson authors"
release = version = pyredisson.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_generated/**"]  # Those are pieces of pages.
language = "en"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 90
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"pyredisson {release}"
html_show_sphinx = False
html_copy_source = False


#: What a user receives from the library and never makes: its signature is not shown.
NOT_FOR_USERS_TO_MAKE = re.compile(r"pyredisson\.(asyncio\.)?(Lock|Hold|Lease)")


class CliHelp(SphinxDirective):
    """``{cli-help} run``: what ``pyredisson run --help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from click import Context

        from pyredisson.tools.cli import cli

        name = self.arguments[0]
        parent = Context(cli, info_name="pyredisson", max_content_width=90, terminal_width=90, **cli.context_settings)
        text = Context(cli.commands[name], parent=parent, info_name=name).get_help()
        return [nodes.literal_block(text, text, language="text")]


def drop_signature(app: Sphinx, what: str, name: str, *_: object) -> tuple[str, str | None] | None:
    return ("", None) if NOT_FOR_USERS_TO_MAKE.fullmatch(name) else None


def keep_colons(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    # Napoleon takes the text before a colon in the first line of a property's docstring for its type.
    if what == "property":
        lines[:] = [*(inspect.getdoc(obj) or "").splitlines(), ""]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_directive("cli-help", CliHelp)
    app.connect("autodoc-process-signature", drop_signature)
    app.connect("autodoc-process-docstring", keep_colons, priority=900)
