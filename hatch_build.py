"""The README as package indexes show it: its links and pictures are absolute there.

In the repository they are relative. Here they are joined to ``[project.urls] Source``, so that the address of the host
stands in one place.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

BRANCH = "main"

_LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?P<target>[^)\s]+)\)")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//")


def absolute(readme: str, source: str) -> str:
    """Return the text of a README with links to files of the repository at ``source``.

    Args:
        readme: Markdown.
        source: The address of the repository.
    """

    def joined(link: re.Match[str]) -> str:
        if _ABSOLUTE.match(link["target"]):
            return link[0]
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}{link['text']}({source.rstrip('/')}/{kind}/{BRANCH}/{link['target']})"

    return _LINK.sub(joined, readme)


class AbsoluteLinks(MetadataHookInterface):
    """Called by hatchling."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description of the distribution."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute(text, source) if source else text,
        }
