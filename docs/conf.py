"""How the documentation is built: ``make docs``."""

from __future__ import annotations

import inspect
import re
import sys
import zlib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import django
from django.conf import settings
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature

import pyredisson

settings.configure()  # Models of Django, also abstract ones, can only be imported after it was set up.
django.setup()

project = "pyredisson"
author = "the pyredisson contributors"
copyright = author
release = version = pyredisson.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_generated/**"]  # Those are pieces of pages.
language = "en"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autodoc_typehints = "signature"
maximum_signature_line_length = 90
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# The groups of settings of `Config`, which are listed like its first arguments.
GROUPS_OF_SETTINGS = ("Connections", "Locks", "Replicas", "Quorums", "Reports")
napoleon_custom_sections = [(each, "params_style") for each in GROUPS_OF_SETTINGS]

# What a reader types is copied, without prompts; what a program prints has no button.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"

html_theme = "furo"
html_title = f"pyredisson {release}"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["pyredisson.css"]
html_js_files = ["tabs.js"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_logo": "logo.svg",
    "dark_logo": "logo-dark.svg",
    "light_css_variables": {
        "color-brand-primary": "#1a5fb4",
        "color-brand-content": "#1a5fb4",
        "plot-ours": "#1a5fb4",
        "plot-theirs": "#7f8a97",
    },
    "dark_css_variables": {
        "color-brand-primary": "#62a0ea",
        "color-brand-content": "#62a0ea",
        "plot-ours": "#62a0ea",
        "plot-theirs": "#7d8590",
    },
}

#: Where other projects document what our pages mention: project, address, and page by name. A list of our own, so that
#: the documentation is built without a network, and always with the same links.
ELSEWHERE: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "python": (
        "https://docs.python.org/3",
        {
            "collections.abc.Callable": "library/collections.abc.html#$",
            "collections.abc.Coroutine": "library/collections.abc.html#$",
            "collections.abc.Iterable": "library/collections.abc.html#$",
            "collections.abc.Iterator": "library/collections.abc.html#$",
            "collections.abc.Mapping": "library/collections.abc.html#$",
            "contextlib.AbstractContextManager": "library/contextlib.html#$",
            "datetime.timedelta": "library/datetime.html#$",
            "BaseException": "library/exceptions.html#$",
            "Exception": "library/exceptions.html#$",
            "RuntimeError": "library/exceptions.html#$",
            "TypeError": "library/exceptions.html#$",
            "ValueError": "library/exceptions.html#$",
            "bool": "library/functions.html#$",
            "bytes": "library/stdtypes.html#$",
            "dict": "library/stdtypes.html#$",
            "float": "library/functions.html#$",
            "int": "library/functions.html#$",
            "str": "library/stdtypes.html#$",
            "tuple": "library/stdtypes.html#$",
        },
    ),
    "redis": (
        "https://redis.readthedocs.io/en/stable",
        {
            "redis.Redis": "connections.html#$",
            "redis.client.Redis": "connections.html#redis.Redis",
            "redis.asyncio.Redis": "connections.html#redis.asyncio.client.Redis",
            "redis.asyncio.client.Redis": "connections.html#$",
            "redis.cluster.RedisCluster": "connections.html#$",
            "redis.asyncio.cluster.RedisCluster": "connections.html#$",
            "redis.exceptions.LockError": "exceptions.html#$",
            "redis.exceptions.LockNotOwnedError": "exceptions.html#$",
            "redis.exceptions.RedisError": "exceptions.html#$",
        },
    ),
}


def inventory(name: str) -> str:
    """Write the inventory of another project, for intersphinx, and return its path."""
    lines = "".join(f"{each} py:class 1 {page} -\n" for each, page in ELSEWHERE[name][1].items())
    head = f"# Sphinx inventory version 2\n# Project: {name}\n# Version: \n# The rest is compressed using zlib.\n"
    path = Path(__file__).parent / "_build" / "inventories" / f"{name}.inv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head.encode() + zlib.compress(lines.encode()))
    return str(path)


intersphinx_mapping = {name: (address, (inventory(name),)) for name, (address, _) in ELSEWHERE.items()}

#: What a user receives from the library and never makes: its signature is not shown.
NOT_FOR_USERS_TO_MAKE = re.compile(r"pyredisson\.(asyncio\.)?(Lock|Hold|Lease)")


#: The settings of `Config` that hardly any program needs. They are shown on a page of their own.
FOR_EXPERTS = {
    "ping_interval",
    "ping_timeout",
    "lock_watchdog_batch_size",
    "max_wait_without_check",
    "fair_lock_wait_timeout",
    "presence_after",
    "restart_guard",
    "quorum_node_timeout",
    "quorum_retry_timeout",
    "quorum_max_extensions",
    "sharded_subscription_mode",
}


def is_elsewhere(app: Sphinx, setting: str) -> bool:
    """Whether a setting of `Config` is shown on the other of its two pages."""
    return (setting in FOR_EXPERTS) != (app.env.docname == "reference/expert")


def adapt_signature(app: Sphinx, what: str, name: str, *_: object) -> tuple[str, str | None] | None:
    if name == "pyredisson.Config":
        shown = inspect.signature(pyredisson.Config)
        settings = [each for each in shown.parameters.values() if not is_elsewhere(app, each.name)]
        return stringify_signature(shown.replace(parameters=settings), show_return_annotation=False), None
    return ("", None) if NOT_FOR_USERS_TO_MAKE.fullmatch(name) else None


def divide_settings(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    # Before Napoleon: a setting is a line with its name and the indented lines that follow; a group may become empty.
    if name == "pyredisson.Config":
        text = re.sub(
            r"^    (\w+): .*\n(?:     .*\n)*",
            lambda setting: "" if is_elsewhere(app, setting[1]) else setting[0],
            "\n".join(lines) + "\n",
            flags=re.MULTILINE,
        )
        text = re.sub(rf"^(?:Args|{'|'.join(GROUPS_OF_SETTINGS)}):\n(?=\n)", "", text, flags=re.MULTILINE)
        lines[:] = text.splitlines()


def keep_colons(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    # Napoleon takes the text before a colon in the first line of a property's docstring for its type.
    if what == "property":
        lines[:] = [*(inspect.getdoc(obj) or "").splitlines(), ""]


#: The forms of a class: the title of its tab, the name that keeps all tabs in step, and the package.
FORMS = (("Threads", "threads", "pyredisson"), ("asyncio", "asyncio", "pyredisson.asyncio"))


class BothForms(SphinxDirective):
    """``.. both-forms:: Lock`` shows a class in a tab for each form. Its options are those of ``autoclass``.

    Content of the directive names methods, one a line: they are shown, and not the class.
    """

    required_arguments = 1
    has_content = True
    option_spec = {  # noqa: RUF012
        "members": directives.unchanged,
        "inherited-members": directives.flag,
        "exclude-members": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        lines = [".. tab-set::", "   :sync-group: form", ""]
        for title, form, package in FORMS:
            lines += [f"   .. tab-item:: {title}", f"      :sync: {form}", ""]
            lines += [f"      .. py:currentmodule:: {package}", ""]
            for method in self.content:
                lines += [f"      .. automethod:: {package}.{self.arguments[0]}.{method}", ""]
            if not self.content:
                lines += [f"      .. autoclass:: {package}.{self.arguments[0]}"]
                lines += [*(f"         :{option}: {value or ''}" for option, value in self.options.items()), ""]
        shown = nodes.Element()
        self.state.nested_parse(StringList(lines, self.get_source_info()[0]), self.content_offset, shown)
        classes = [each for each in shown.findall(addnodes.desc_signature) if each["fullname"] == self.arguments[0]]
        for (title, _, _), signature in zip(FORMS if classes else (), classes, strict=True):
            signature["_toc_name"] += f" ({title})"  # in the contents of the page
        return shown.children


DESCRIPTION = 160  # characters; search engines show no more


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Describe a page to search engines and to those who receive its link, by its first paragraph."""
    if doctree is None or 'name="description"' in context.get("metatags", ""):  # It describes itself.
        return
    paragraphs = (each.astext() for each in doctree.findall(lambda node: node.tagname == "paragraph"))
    text = " ".join(next((each for each in paragraphs if len(each) > 40), "").split())
    if len(text) > DESCRIPTION:
        text = text[:DESCRIPTION].rsplit(" ", 1)[0] + " …"
    tags = {"name": {"description": text}, "property": {"og:title": context["title"], "og:description": text}}
    context["metatags"] = context.get("metatags", "") + "".join(
        f'<meta {kind}="{name}" content="{escape(re.sub("<[^>]*>", "", value))}" />'
        for kind, each in tags.items()
        for name, value in each.items()
        if value
    )


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_directive("both-forms", BothForms)
    app.connect("autodoc-process-signature", adapt_signature)
    app.connect("autodoc-process-docstring", divide_settings, priority=100)
    app.connect("autodoc-process-docstring", keep_colons, priority=900)
    app.connect("html-page-context", describe)
