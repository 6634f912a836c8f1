"""How the documentation is built: ``sphinx-build -W --keep-going -b html docs docs/_build/html``."""

from __future__ import annotations

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
exclude_patterns = ["_build"]
language = "en"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"pyredisson {release}"
html_show_sphinx = False
html_copy_source = False


class CliHelp(SphinxDirective):
    """``{cli-help} run``: what ``pyredisson run --help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from click import Context

        from pyredisson.cli import cli

        name = self.arguments[0]
        context = Context(cli.commands[name], info_name=f"pyredisson {name}", max_content_width=90, terminal_width=90)
        return [nodes.literal_block(text=context.get_help(), language="text")]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_directive("cli-help", CliHelp)
