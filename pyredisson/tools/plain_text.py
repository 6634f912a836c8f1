"""Text of others, for a terminal, which does what control characters say: a server's error may have any."""

from __future__ import annotations

__all__ = ["plain"]


def plain(text: str) -> str:
    """Return a text with everything that does not print (control characters above all) written as an escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
